"""Dead letters: invalid records kept in a topic or a file, to be read and replayed later."""
