"""The catalogue: one file, one metric. `ls` shows them all."""
