"""What a tree search needs of git: where it starts, worktrees, candidates as commits, and refs that keep them."""
