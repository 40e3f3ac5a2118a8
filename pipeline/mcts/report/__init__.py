"""Comparison of scenarios: what each solved and spent, with intervals. Pure; imports search, trust and pages.

figures  records of searches, which of them count, and the figures of one scenario
compare  all scenarios: each alone, against the first, and along the fraction of goals blocked
page     comparison.html: tables, charts, figures and settings in words"""
