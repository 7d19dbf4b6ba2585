"""`python -m streameval` is `streameval`."""

from streameval.cli import run_command

if __name__ == "__main__":
    run_command()
