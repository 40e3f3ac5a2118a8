"""What kinds that prove have alike: which Lean is asked, and which rows of a bank are goals."""
