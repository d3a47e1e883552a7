"""The progress bar: on a terminal, after a second, and nowhere else."""

from __future__ import annotations

import io

import pytest

from profsuite.cli import progress
from profsuite.cli.progress import ProgressBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def play(clock: Clock, seconds: float, total: int | None = 10**9) -> None:
    with ProgressBar("[red]trace\x1b[31m.json[/red]") as bar:
        for step in range(1, 11):
            clock.now += seconds / 10
            bar(step * 10**8, total)


@pytest.mark.parametrize("total", [10**9, None])
def test_shown_on_a_terminal_after_a_second(monkeypatch: pytest.MonkeyPatch, clock: Clock, total: int | None) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", Terminal())
    import sys

    play(clock, 5.0, total)
    assert isinstance(sys.stderr, Terminal)
    out = sys.stderr.getvalue()
    assert "MB/s" in out
    assert "[red]trace" in out
    assert "\x1b[31m.json" not in out


def test_counts_ranks(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with ProgressBar("8 ranks", noun="ranks") as bar:
        for done in range(1, 9):
            clock.now += 0.5
            bar(done, 8)
    assert "2/8" in terminal.getvalue()
    assert "8/8" in terminal.getvalue()
    assert "ranks/s" in terminal.getvalue()
    assert "MB" not in terminal.getvalue()


def test_not_shown_before_a_second(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    play(clock, 0.9)
    assert terminal.getvalue() == ""


def test_not_shown_in_a_pipe(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr("sys.stderr", pipe)
    play(clock, 60.0)
    assert pipe.getvalue() == ""
