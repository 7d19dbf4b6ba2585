"""A real broker, and everything that reads from or writes to it."""
