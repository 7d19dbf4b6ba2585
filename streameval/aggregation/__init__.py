"""Containers of accumulators, by label; they know no metric."""
