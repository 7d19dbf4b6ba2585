"""Formulas of intervals and differences, over sums of groups of users."""
