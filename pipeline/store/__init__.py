"""Everything kept on disk of runs and of results.

Not pure.  Imports core and errors.  This module and noop are imported on every start, so they import only what is
built in.

noop      says that nothing is to be done, at a stat a file
state     the signatures of all files a run depends on, as of its last build; a cache
files     contents of files, read once; files written whole or not at all; logs that grow by whole lines
folders   folders that other programs wrote: walked, made removable, deleted
receipts  what was recorded of each target: the truth
records   records as JSON files
results   results by key, shared between checkouts
flock     locks on files, waited for with a deadline, and who holds them
gc        drops results that no checkout refers to"""
