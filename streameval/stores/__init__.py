"""Where checkpoints are kept; one contract (durability/store.py), one suite."""
