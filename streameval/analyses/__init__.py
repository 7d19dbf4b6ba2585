"""Analyses: conclusions from counts, each a package with its settings, reader and output."""
