"""How often the rule promotes noise, and how often it finds what is there: `python -m benchmarks.trust`."""
