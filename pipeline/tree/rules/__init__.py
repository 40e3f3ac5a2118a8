"""The rules of the search: everything that decides.  Pure: no files, clock, randomness or processes.

May import: core, errors, trust and each other.  The same records always give the same decision, which is why `coppice
replay` can make every one of them again.

positions   places of nodes and evaluations in the search; the path of every record
results     the results CSV of a sweep, and whether it is complete
scoring     scores: weighted_means, paired by blocks, config by config
beam        the gate, the ranking, promotion and the reasons to stop
budget      what a run may spend: reserved, settled, never taken back
assignment  idea texts, duplicates, and which slot tries which idea
protection  whether a candidate touches what is protected
prompts     prompts for roles, what their answers mean, and the made-up answers of a dry run
explain     why a check was passed or not, in numbers; where a replayed record differs first"""
