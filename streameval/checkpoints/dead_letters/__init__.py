"""Dead letters: invalid records in a topic, to be read and replayed later."""
