"""Where the world is touched: files, processes, locks, the store."""
