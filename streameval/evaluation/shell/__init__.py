"""Shared parts of commands that evaluate: options, errors, tables in the terminal."""
