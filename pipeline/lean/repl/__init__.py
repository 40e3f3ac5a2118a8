"""Our REPL: processes of Lean, replaced when they are lost, and shared by the sessions of many theorems.

Not pure.  Imports lean and machine.  The Lean part lies beside: Repl.lean, and Coppice/ with its sources; Trust.lean
checks proofs and axioms, Refuse.lean what a tactic may do.

process  one Lean process: starts, sends a line, waits for the answer
slot     a place for one process at a time
pool     many slots, and the sessions in them: what Lean is asked, with which limits"""
