"""What people look at: text, SVG, progress, JUnit.  Reads records, writes nothing upstream."""
