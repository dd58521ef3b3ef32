"""`python -m ramet` is `ramet`."""

from ramet.cli.commands import main

if __name__ == "__main__":
    main()
