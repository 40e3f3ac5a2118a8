"""Everything kept on disk of runs, of results and of attempts at goals.

Not pure.  Imports core and errors; the ledger imports goals.  This module and noop are imported on every start, so
they import only what is built in.

noop      says that nothing is to be done, at a stat a file
state     the signatures of all files a run depends on, as of its last build; a cache
files     contents of files, folders and patterns that targets read; files written whole; logs of whole lines
folders   deletes folders that other programs wrote, and finds what is in them
receipts  what was recorded of each target: the truth
records   records as JSON files
results   results by key, shared between checkouts; each is checked when it is read
secret    the user's own key, which signs what is believed when it is read again
steering  what people ask of a run while it is built, and ideas that they give it
flock     locks on files, waited for with a deadline, and who holds them
ledger    every attempt at a goal, in an SQLite database that all runs of a project share; its tables, reads and writes
gc        drops results that no checkout refers to"""
