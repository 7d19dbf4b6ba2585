"""Evaluation without a daemon: files, frames and saved states to accumulators and values."""
