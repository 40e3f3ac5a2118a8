"""Running a search of one theorem on a Lean. Not pure; imports search and Lean.

evaluator  carries out an `Expand` on a Lean session
engine     sessions at work at once, and the loop of asking and telling"""
