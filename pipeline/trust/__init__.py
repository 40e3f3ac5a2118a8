"""What a difference between two measurements is worth: pure statistics, which know nothing of searches, files or specs.

`rule.weigh` judges all ideas of a depth at once, `verdicts.verdict` says what follows for one of them.  Everything is
the same on every machine and with every numpy from 1.26 on; `draws` says by what means."""
