"""Files and processes that proof and mcts share: rows of a bank checked by Lean, opening a Lean, proofs as files.

Not pure: files and processes.  May import core, errors, spec, spec_fields, machine, lean, goals and tactics.

read     keys that the specs of all kinds that prove share
records  goals and proofs as JSON files
lean     the Lean that a stage asks, and the stage that records it
check    rows that do not elaborate, are false, or stand there twice"""
