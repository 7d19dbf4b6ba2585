"""Analyses: conclusions from counts, each a room with its settings, words and surfaces."""
