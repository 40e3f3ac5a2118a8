"""Workers of strategies. Not pure; imports schedule, spec and run, goals, lean and tactics.

table       workers by name, built or not, and how one is made for a strategy
best_first  the search of `micro`, which knows neither Lean nor a clock
micro       the worker `micro`: that search on a Lean"""
