"""Run with `python -m unittest` in the folder above; they need no prices."""
