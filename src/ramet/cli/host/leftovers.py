"""`ramet doctor --leftovers`: what exists on the host but not in the store, and its removal."""

from contextlib import closing
from pathlib import Path

import click

from ramet.cli.host.data_dir import existing_data_dir
from ramet.cli.ui.asking import answered
from ramet.cli.ui.output import print_result, say
from ramet.configured import local_inventory, open_store
from ramet.control.leftovers import discard, find_leftovers

_AGREED = "The host and the store agree: nothing is left over, and nothing is missing."


def show_leftovers(data_dir: Path | None, output: str, *, clean: bool, confirmed: bool) -> int:
    """Print what was found, and remove it if `clean`. Return 1 if anything is left at the end, else 0."""
    settings = existing_data_dir(data_dir, storage=True)
    with closing(open_store(settings, migrates=False)) as store:
        inventory = local_inventory(settings)
        found = find_leftovers(store, inventory)
        sentences = [finding.sentence for finding in found]
        print_result(sentences, output, lambda: click.echo("\n".join(sentences) or _AGREED))
        removable = [finding for finding in found if finding.resource is not None]
        if not clean or not removable:
            return 1 if found else 0
        with answered("use --yes."):
            agrees = confirmed or click.confirm(f"Remove the {len(removable)} leftovers permanently?", err=True)
        if not agrees:
            say("Nothing was removed.")
            return 1
        for finding in discard(store, inventory, removable):
            say(f"Removed the {finding.resource}.")
        left = find_leftovers(store, inventory)
    for finding in left:
        say(f"Still there: {finding.sentence}", "red")
    return 1 if left else 0
