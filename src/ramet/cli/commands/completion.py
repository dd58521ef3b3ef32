"""`ramet completion`: the script with which a shell completes commands, options and services."""

import click
from click.shell_completion import get_completion_class

_VARIABLE = "_RAMET_COMPLETE"


@click.command("completion")
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    \b
    Examples:
      eval "$(ramet completion bash)"
      ramet completion fish > ~/.config/fish/completions/ramet.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise AssertionError(f"BUG: click knows no completion for {shell}")
    click.echo(kind(ctx.find_root().command, {}, "ramet", _VARIABLE).source())
