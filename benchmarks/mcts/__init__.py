"""What the search for proofs by MCTS costs and what it comes to."""
