"""Where dead letters are kept: a topic, a file, or nowhere; and what is done with them later."""
