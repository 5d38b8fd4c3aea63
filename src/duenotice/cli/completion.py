"""`duenotice completion`: the script that lets a shell complete our commands."""

import click

from duenotice.cli.saying import say


@click.command(epilog='Example: eval "$(duenotice completion bash)"')
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell."""
    from click.shell_completion import get_completion_class

    root = click.get_current_context().find_root().command
    kind = get_completion_class(shell)
    assert kind is not None
    say(kind(root, {}, "duenotice", "_DUENOTICE_COMPLETE").source())
