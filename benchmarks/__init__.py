"""Measurements of the product against its peers; each prints JSON."""
