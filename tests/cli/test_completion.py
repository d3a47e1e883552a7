"""Completion of commands, options, their values and paths, in the shells' own words and in a real bash."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import click
import pytest

from profsuite.cli.app import COMMANDS, app

Run = Callable[..., "CompletedProcess[str]"]

PLACES = {"FILE", "PATH", "PATH...", "BASE", "TRACE", "BEFORE", "AFTER", "OTHER", "DUMP...", "[ARGS]..."}


@pytest.fixture
def complete(run: Run) -> Callable[..., list[str]]:
    """What a shell is told for a line whose last word is to be completed."""

    def call(*words: str, shell: str = "bash") -> list[str]:
        env = {"_PROFSUITE_COMPLETE": f"{shell}_complete", "COMP_WORDS": "\n".join(("profsuite", *words))}
        env["COMP_CWORD"] = words[-1] if shell == "fish" else str(len(words))
        done = run(env=env)
        assert (done.returncode, done.stderr) == (0, "")
        return str(done.stdout).splitlines()

    return call


def parameters() -> list[tuple[str, click.Parameter]]:
    context = click.Context(app, info_name="profsuite")
    found = [(name, app.get_command(context, name)) for name in COMMANDS]
    return [(name, parameter) for name, command in found if command is not None for parameter in command.params]


def test_every_parameter_that_takes_a_path_completes_it() -> None:
    kinds = {}
    for name, parameter in parameters():
        if parameter.metavar in PLACES or parameter.name == "script":
            kinds[name, parameter.name] = "file"
        if parameter.metavar == "DIR":
            kinds[name, parameter.name] = "dir"
        items: list[Any] = parameter.shell_complete(click.Context(app), "tr")
        told = {item.type for item in items} - {"plain"}
        assert told == ({kinds[name, parameter.name]} if (name, parameter.name) in kinds else set()), (name, parameter)
    assert {name for name, _ in kinds} == set(COMMANDS) - {"doctor", "completion"}


@pytest.mark.parametrize(
    ("shell", "told"), [("bash", ["file,tr"]), ("zsh", ["file", "tr", "_"]), ("fish", ["file,tr"])]
)
def test_paths(complete: Callable[..., list[str]], shell: str, told: list[str]) -> None:
    for words in (
        ["info", "tr"],
        ["analyze", "a.json", "tr"],
        ["diff", "a.json", "tr"],
        ["query", "SELECT", "tr"],
        ["report", "a.json", "--html", "tr"],
        ["record", "train.py", "tr"],
    ):
        assert complete(*words, shell=shell) == told, words


def test_values(complete: Callable[..., list[str]]) -> None:
    assert complete("analyze", "--only", "k") == ["plain,kernels"]
    assert complete("analyze", "--only", "=", "k") == ["plain,kernels"]  # as bash has --only=k
    assert complete("report", "a.json", "--only", "verdict,f") == ["plain,verdict,findings"]
    assert complete("analyze", "--only", "host,h") == ["plain,host,health"]  # host is there
    assert complete("convert", "a.json", "--to", "per") == ["plain,perfetto"]
    assert complete("diff", "--format", "m") == ["plain,markdown"]
    assert complete("analyze", "a.json", "--sensitivity", "") == ["plain,low", "plain,medium", "plain,high"]
    assert complete("record", "-o", "ru") == ["dir,ru"]


def test_a_file_in_place_of_a_command_is_no_error_while_completing(
    complete: Callable[..., list[str]], trace: Path
) -> None:
    assert complete(str(trace), "tr") == [""]


def test_fish_gets_values_with_commas(run: Run) -> None:
    assert '(string split --max 1 ","' in run("completion", "fish").stdout


def in_bash(folder: Path, *lines: str) -> str:
    """What an interactive bash shows for lines typed with the script of ``profsuite completion bash`` in force."""
    import pty

    (folder / "bin").mkdir()
    program = folder / "bin" / "profsuite"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "from profsuite.cli import main; main()" "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "TERM": "dumb", "PS1": ""}
    master, slave = pty.openpty()
    shell = subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"], stdin=slave, stdout=slave, stderr=slave, cwd=folder, env=environment,
        start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    out = b""
    try:
        for line in ('eval "$(profsuite completion bash)"', *lines, "exit"):
            os.write(master, f"{line}\n".encode())
        while select.select([master], [], [], 50)[0]:
            try:
                data = os.read(master, 65536)
            except OSError:  # nobody has the other end any more
                break
            if not data:
                break
            out += data
    finally:
        shell.kill()
        shell.wait()
        os.close(master)
    return out.decode("utf-8", "replace")


@pytest.mark.skipif(os.name == "nt" or shutil.which("bash") is None, reason="no bash here")
def test_in_a_real_bash(tmp_path: Path) -> None:
    (tmp_path / "trace.json.gz").touch()
    (tmp_path / "runs").mkdir()
    # Ctrl-A goes to the line's start: what was completed is echoed instead of run.
    shown = in_bash(
        tmp_path,
        "profsuite analyze tra\t\x01echo 1 ",
        "profsuite info ru\t\x01echo 2 ",
        "profsuite report x --html=tra\t\x01echo 3 ",
        "profsuite analyze x --only verdict,ker\t\x01echo 4 ",
        "profsuite analyze x --only=ker\t\x01echo 5 ",
    )
    lines = [line.strip() for line in shown.splitlines()]
    assert "1 profsuite analyze trace.json.gz" in lines, shown
    assert "2 profsuite info runs/" in lines, shown
    assert "3 profsuite report x --html=trace.json.gz" in lines, shown
    assert "4 profsuite analyze x --only verdict,kernels" in lines, shown
    assert "5 profsuite analyze x --only=kernels" in lines, shown
