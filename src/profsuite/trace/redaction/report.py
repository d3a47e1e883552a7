"""What was replaced: how many of each kind, and where; never what."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(slots=True)
class RedactionReport:
    """Texts changed, by kind and column; the pseudonyms that stand in them; rows that were opted out, by table.

    A text counts once for each column that holds it, however many rows do.
    """

    level: str | None
    num_traces: int = 0
    texts: dict[str, dict[str, int]] = field(default_factory=dict)
    pseudonyms: dict[str, set[str]] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)

    def count(self, kinds: Iterable[str], column: str) -> None:
        """A text of a column in which these kinds were replaced."""
        for kind in kinds:
            columns = self.texts.setdefault(kind, {})
            columns[column] = columns.get(column, 0) + 1

    def replaced(self, kind: str, pseudonym: str) -> None:
        """A value of a kind has this pseudonym."""
        self.pseudonyms.setdefault(kind, set()).add(pseudonym)

    def remove(self, table: str, rows: int) -> None:
        """Rows of a table that were opted out."""
        if rows:
            self.removed[table] = self.removed.get(table, 0) + rows

    def merge(self, other: RedactionReport) -> None:
        """Add what another process counted."""
        self.num_traces += other.num_traces
        for kind, columns in other.texts.items():
            mine = self.texts.setdefault(kind, {})
            for column, count in columns.items():
                mine[column] = mine.get(column, 0) + count
        for kind, found in other.pseudonyms.items():
            self.pseudonyms.setdefault(kind, set()).update(found)
        for table, rows in other.removed.items():
            self.remove(table, rows)

    def as_json(self) -> dict[str, Any]:
        """The report as plain values: how many ``values`` of a kind, in how many ``texts`` of which column."""
        return {
            "sensitivity": self.level,
            "num_traces": self.num_traces,
            "replaced": {
                kind: {"values": self._values(kind), "texts": dict(sorted(columns.items()))}
                for kind, columns in sorted(self.texts.items())
            },
            "opted_out_rows": dict(sorted(self.removed.items())),
        }

    def dump(self) -> str:
        """The report as JSON text."""
        return json.dumps(self.as_json(), indent=1) + "\n"

    def line(self) -> str:
        """The report in one line: ``redacted (medium): 41 paths, 3 emails``."""
        found = sorted(((self._values(kind), kind) for kind in self.texts), key=lambda each: (-each[0], each[1]))
        words = [f"{count:,} {_plural(kind, count)}" for count, kind in found]
        words += [
            f"{rows:,} {'row' if rows == 1 else 'rows'} of {table} opted out"
            for table, rows in sorted(self.removed.items())
        ]
        said = ", ".join(words) or "nothing had to be replaced"
        return f"redacted ({self.level}): {said}" if self.level else said

    def _values(self, kind: str) -> int:
        """Different values of a kind; texts, where they have no pseudonyms."""
        return len(self.pseudonyms.get(kind, ())) or sum(self.texts[kind].values())


def _plural(kind: str, count: int) -> str:
    name = kind.replace("-", " ")
    if name in ("environment", "opted out"):
        return (
            {"environment": "variable", "opted out": "name opted out"}[name]
            if count == 1
            else {"environment": "variables", "opted out": "names opted out"}[name]
        )
    if count == 1:
        return name
    if name.endswith("s"):
        return name + "es"
    return name[:-1] + "ies" if name.endswith("y") and name[-2] not in "aeiou" else name + "s"
