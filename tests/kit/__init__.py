"""What several tests use: stand-ins, worlds of tables, projects in temporary folders."""
