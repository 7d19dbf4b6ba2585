"""`python -m streameval` is `streameval`."""

from streameval.cli import main

if __name__ == "__main__":
    main()
