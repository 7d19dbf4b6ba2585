"""What commands that evaluate share: options, errors, tables in the terminal."""
