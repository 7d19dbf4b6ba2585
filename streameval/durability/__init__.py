"""State that survives: checkpoints, what is checked before one is loaded, and what is shown of it."""
