"""The ledger of a project: every attempt at a goal.

Pure, and imports goals: the records and their rows.  The database is in sqlite/.

model    attempts by their key, open goals, tactics that proved something; as rows and back
sqlite/  the file they are kept in"""
