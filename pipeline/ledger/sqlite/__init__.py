"""The ledger's file: an SQLite database, with one writing thread a process and any number of readers.

Not pure.  Imports ledger and errors.

schema  the tables, opening the file, and what can be wrong with it
ledger  queries and writes"""
