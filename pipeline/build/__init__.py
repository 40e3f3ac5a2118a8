"""The build: what is stale, making it so, and the only importers of doit."""
