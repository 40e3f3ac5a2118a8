"""Benchmarks of what decides and keeps a search for proofs: bandits, scheduler, ledger."""
