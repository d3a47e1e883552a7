"""``profsuite completion``: the script that makes a shell complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, add_completion_class, get_completion_class

from profsuite.cli.options import examples

EXAMPLES = examples(
    "profsuite completion bash >> ~/.bashrc",
    "profsuite completion zsh  >> ~/.zshrc",
    "profsuite completion fish > ~/.config/fish/completions/profsuite.fish",
)


@add_completion_class
class Bash(BashComplete):
    """As click's; it knows that bash makes three words of ``--only=verdict``."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one to complete, and that one."""
        words, incomplete = super().get_completion_args()
        return [word for word in words if word != "="], incomplete


@add_completion_class
class Fish(FishComplete):
    """As click's, for values with commas in them: what follows the first comma is the value."""

    source_template = FishComplete.source_template.replace('(string split ","', '(string split --max 1 ","')


@click.command("completion", epilog=EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell."""
    from profsuite.cli.app import COMPLETE, app

    completion = get_completion_class(shell)
    assert completion is not None
    click.echo(completion(app, {}, "profsuite", COMPLETE).source())
