"""Goals as Lean prints them, read; and tactic text, written.

Pure; imports nothing of ours outside.

syntax      a proposition cut at its outermost connective
goal        a printed goal: hypotheses, variables, target
terms       arithmetic read into terms, and these computed: values and polynomials
arithmetic  what a goal says about numbers
tactic      a tactic with its cost, and pieces of tactic text"""
