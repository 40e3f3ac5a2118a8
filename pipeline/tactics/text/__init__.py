"""Goals as Lean prints them, read; and tactic text, written.

Pure; imports nothing of ours outside.

syntax      a proposition cut at its outermost connective
goal        a printed goal: hypotheses, variables, target
terms       arithmetic read into terms
arithmetic  what a goal says about numbers
numbers     terms computed: values and polynomials
move        a tactic with its cost, pieces of tactics, goals in a state, the script of a proof"""
