"""The start of `ramet`, which is also `python -m ramet`."""

import gc

_COLLECT_AFTER = 50_000


def main() -> None:
    """Run the command line."""
    gc.set_threshold(_COLLECT_AFTER)  # what a command imports is no garbage, and looking for some takes its time
    from ramet.cli.commands import main as run

    run()


if __name__ == "__main__":
    main()
