"""Cells of a partition's state by time and label values: panes, windows, and the caps on labels."""
