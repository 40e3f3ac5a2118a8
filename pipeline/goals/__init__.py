"""Banks of goals to prove: their rows, those of them that count; attempts at goals, and their proofs as files for Lean.

Pure: text and records alone; a Lean is asked through its interface.  May import core, errors, lean and tactics/text.

bank        a bank as text and as JSON: rows read and checked, goals and refusals
check       rows that do not elaborate, are false, or stand there twice; small values to look for counterexamples
attempts    attempts by their key, open goals, tactics that proved something; as rows of the ledger and back
lean_files  proofs as files for Lean, one by one or all in one"""
