"""What pages that are written once and open offline are made of: frame, tables, charts."""
