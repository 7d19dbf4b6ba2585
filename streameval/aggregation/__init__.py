"""Containers of accumulators, by time and by label values; they know no metric."""
