"""A number of the recording benchmarks beside what it has to reach; standard library only."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Row:
    """One number; ``need`` is the most that it may be, ``spread`` its quartiles."""

    what: str
    value: float
    unit: str
    need: float | None = None
    spread: tuple[float, float] | None = None

    def met(self) -> bool | None:
        """Whether it reaches its need; None where it has none."""
        return None if self.need is None else self.value <= self.need

    def line(self) -> str:
        """The row as text."""
        digits = 3 if self.unit == "x" else 2
        spread = f"  (quartiles {self.spread[0]:.{digits}f} to {self.spread[1]:.{digits}f})" if self.spread else ""
        need = "" if self.need is None else f"  need ≤ {self.need:.3g}: {'met' if self.met() else 'MISSED'}"
        return f"  {self.what:<58}{self.value:>12,.{digits}f} {self.unit}{need}{spread}"


Found = Mapping[str, Sequence[Row]]


def say(case: str, rows: Sequence[Row]) -> None:
    """Print the rows of a case."""
    print(f"{case}:", *(row.line() for row in rows), sep="\n", flush=True)


def write(found: Found, output: Path | None) -> None:
    """Write all rows as JSON, where ``output`` names a file."""
    if output is not None:
        told = {case: [asdict(row) | {"met": row.met()} for row in rows] for case, rows in found.items()}
        output.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def code(found: Found) -> int:
    """The exit code: 1 if a number does not reach what it has to."""
    return int(any(row.met() is False for rows in found.values() for row in rows))
