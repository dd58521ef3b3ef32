"""`ramet doctor --leftovers`: what lies about on the host that no row of the store owns, and its removal."""

from contextlib import closing

import click

from ramet.app import has_storage, has_store, local_inventory, open_store
from ramet.cli.ui.output import print_data, say
from ramet.control.leftovers import discard, find_leftovers
from ramet.errors import NotFound
from ramet.settings import Settings


def show_leftovers(settings: Settings, output: str, *, clean: bool, confirmed: bool) -> int:
    """Print what was found, and remove it when that is wanted; 1 when something is still there at the end."""
    if not (has_storage(settings) and has_store(settings)):
        raise NotFound("NO_DATA_DIR", f"{settings.data_dir} is no data directory of Ramet", "Name one with --data.")
    with closing(open_store(settings)) as store:
        inventory = local_inventory(settings)
        found = find_leftovers(store, inventory)
        _show([finding.sentence for finding in found], output)
        removable = [finding for finding in found if finding.possession is not None]
        if not clean or not removable:
            return 1 if found else 0
        if not confirmed and not click.confirm(f"Remove the {len(removable)} leftovers for good?", err=True):
            say("Nothing was removed.")
            return 1
        for finding in discard(store, inventory, removable):
            say(f"Removed the {finding.possession}.")
        left = find_leftovers(store, inventory)
    for finding in left:
        say(f"Still there: {finding.sentence}", "red")
    return 1 if left else 0


def _show(sentences: list[str], output: str) -> None:
    if output != "table":
        print_data(sentences, output)
    elif not sentences:
        click.echo("Host and store agree: nothing is left over, and nothing is lost.")
    else:
        click.echo("\n".join(sentences))
