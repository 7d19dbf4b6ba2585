"""State that survives: checkpoints, what is checked before one is loaded, what is shown of it."""
