"""`python -m streameval` is `streameval`."""

from streameval.cli.app import main

if __name__ == "__main__":
    main()
