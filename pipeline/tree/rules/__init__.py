"""Rules of the search: everything that decides.  Pure: no files, clock, randomness or processes.

May import: core, errors, trust and each other.  The same records always give the same decision, which is why `coppice
replay` can make every one of them again.

positions   places of nodes and evaluations in the search; the path of every record
sheet       the results CSV of a sweep, and whether it is complete
scoring     scores by means or by blocks, and grades: strong, promising, mixed, weak
beam        the gate, the ranking, promotion and the reasons to stop
budget      the budget of a run: reserved, settled, never taken back
assignment  the form of an idea, duplicates, and which slot gets which idea
protection  the check of a candidate's files against the protected ones
prompts     prompts for roles, and which files of the repository stand in one; answers of reviewers read
edits       edits in the answers of coders: SEARCH/REPLACE blocks, whole files, a diff"""
