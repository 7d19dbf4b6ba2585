"""The offline engine of commands and of Python: counts files, frames and saved states."""
