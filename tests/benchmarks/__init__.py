"""Benchmarks that print times and ratios of one run; they assert nothing."""
