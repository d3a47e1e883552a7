"""What a written report consists of, apart from the format it is written in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Name:
    """A name from the trace: untrusted, and to be shortened where there is little room."""

    text: str


Cell = str | Name


@dataclass(frozen=True, slots=True)
class Column:
    """A column's heading, whether it holds numbers (set to the right), and whether little room may drop it."""

    title: str
    numeric: bool = True
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under columns; ``caption`` says what a row is, ``detail`` that a short report may omit it."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    detail: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    """A part of a whole: ``pct`` of it as the length of the bar; ``within`` marks a part of the bar before."""

    label: str
    value: str
    pct: float
    within: bool = False


@dataclass(frozen=True, slots=True)
class Bars:
    """How a whole splits into parts."""

    caption: str
    rows: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, what it shows, and remarks: what was left out, what was not recorded and how to record it."""

    title: str
    blocks: tuple[Table | Bars, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Advice:
    """A finding in words: what was seen, where, what it costs, what a remedy saves, what to do."""

    severity: str
    title: str
    seen: tuple[str, ...]
    where: str | None
    cost: str | None
    saving: str | None
    remedy: str

    def lines(self) -> tuple[tuple[str, str], ...]:
        """What there is to say below the title, each with its heading."""
        seen = "; ".join(self.seen)
        parts = (
            ("seen", seen),
            ("where", self.where),
            ("cost", self.cost),
            ("saving", self.saving),
            ("do", self.remedy),
        )
        return tuple((heading, text) for heading, text in parts if text)


@dataclass(frozen=True, slots=True)
class NextStep:
    """A command to run next: what it shows, and its parts, between which it may be broken into lines."""

    shows: str
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A whole report on one trace; ``facts`` describe the trace, ``next_step`` is what to run next, if anything."""

    source: str
    facts: tuple[str, ...]
    verdict: str | None
    advice: tuple[Advice, ...] | None
    sections: tuple[Section, ...]
    remarks: tuple[str, ...]
    next_step: NextStep | None
