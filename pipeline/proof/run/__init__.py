"""Carrying out a schedule: attempts by workers, kept in the ledger. Not pure.

It imports schedule, goals, lean, the ledger and machine.

attempt  one attempt: the worker's answer, checked, recorded; attempts recalled from the ledger
engine   the loop: starts trials, cancels them, tells the schedule how they end"""
