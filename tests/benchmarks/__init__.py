"""Benchmarks: they print ratios measured inside one run, and assert nothing."""
