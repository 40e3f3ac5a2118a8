"""What one may try on a goal that Lean printed: read it, propose tactics for it."""
