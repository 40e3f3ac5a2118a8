"""Families of tactics: each has a function `propose_FAMILY` from a printed goal to moves.

Pure; imports tactics/text, and here and there a function of another family, never in a circle.

logic         finishers, logic: what proves a goal or nothing; moves that follow the connectives; witnesses: values for
              an existence claim; cases, induction, definitions
lemmas        rewriting, specialising, laws
bounds        bounds for variables, and every number within them
divisibility  factors, divisibility, quotients
equations     linear, polynomials
products      products, gathering: facts multiplied and put together; powers, roots
residues      arithmetic modulo a number
sequences     recurrences whose values repeat"""
