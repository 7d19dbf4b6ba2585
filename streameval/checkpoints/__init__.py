"""Checkpoints: restores, writes and commits the state of partitions, in a folder store."""
