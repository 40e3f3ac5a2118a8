"""Tactics for a goal that Lean printed: text/ reads the goal, families/ propose, `moves` has the table of families.

Pure: text in, text out; imports nothing of ours outside.  families import text, never each other's tables; `moves`
imports both.

moves     all moves for a goal, by family
script    a tactic on a state: the goals it left; proofs as scripts
text      goals, propositions, terms and polynomials read; tactic text written
families  what one may try on a goal"""
