"""`kind: steps`: a plain make-like pipeline."""
