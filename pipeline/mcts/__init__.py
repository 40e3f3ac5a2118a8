"""The kind `mcts`: a Monte-Carlo tree search for proofs, by one controller or by many."""
