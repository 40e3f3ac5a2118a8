"""Pure parts: no I/O, no clock, no randomness, standard library only."""
