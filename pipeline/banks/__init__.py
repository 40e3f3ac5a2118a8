"""What kinds that prove have alike: which Lean is asked, which rows of a bank are goals, and what pages are made of."""
