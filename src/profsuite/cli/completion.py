"""``profsuite completion``: the script that makes a shell complete commands and options."""

from __future__ import annotations

import click

from profsuite.cli.options import examples

EXAMPLES = examples(
    "profsuite completion bash >> ~/.bashrc",
    "profsuite completion zsh  >> ~/.zshrc",
    "profsuite completion fish > ~/.config/fish/completions/profsuite.fish",
)


@click.command("completion", epilog=EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell."""
    from click.shell_completion import get_completion_class

    from profsuite.cli.app import app

    completion = get_completion_class(shell)
    assert completion is not None
    click.echo(completion(app, {}, "profsuite", "_PROFSUITE_COMPLETE").source())
