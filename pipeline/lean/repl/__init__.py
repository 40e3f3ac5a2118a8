"""Our REPL: processes of Lean, replaced when they are lost, and shared by the sessions of many theorems.

Not pure.  Imports lean and machine.  The Lean part lies beside: Repl.lean, and Coppice/ with its sources.

process  one Lean process: a request, then its answer
slot     a place for one process at a time
pool     many slots, and the sessions in them"""
