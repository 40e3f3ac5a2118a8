"""Goals to prove and the banks they come from: rows of a file, and what kinds that prove have in common.

Pure: text and records alone.  May import core, errors and tactics/text.

bank             a bank of goals as text: rows read and checked, goals and refusals
proving          what every kind that proves has alike: settings of its Lean, first target, lines for people
counterexamples  small values for the variables of a statement"""
