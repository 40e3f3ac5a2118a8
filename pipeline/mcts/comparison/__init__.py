"""Searches beside each other: what each scenario solved and spent, with intervals, as a record, a table and a page."""
