"""Budgets: limits that a recording must keep, read from TOML."""

from __future__ import annotations

import math
import re
import tomllib
from pathlib import Path
from typing import Any

from msgspec import Struct

from profsuite.errors import ProfsuiteError

LIMITS = {
    "step_ms_max": "mean time of a step on the busiest device (of the main thread without one), ms",
    "busy_pct_min": "share of the steps' time in which the device does anything, at least, %",
    "compute_pct_min": "share of the steps' time in which it computes, at least, %",
    "exposed_comm_pct_max": "share of exposed communication, %",
    "exposed_memcpy_pct_max": "share of exposed copies, %",
    "idle_pct_max": "share of idle time, %",
    "memory_peak_bytes_max": "largest total that the device's allocator had given out, bytes",
}
"""The keys of a budget file, and what each limits."""

OP_LIMITS = {"device_ms_per_step_max": "device work that the op launches itself, summed, ms per step"}
"""The keys below ``op."NAME"``."""


class Budget(Struct, frozen=True, kw_only=True):
    """One limit: ``key`` of ``LIMITS``, or of ``OP_LIMITS`` for the op ``op``."""

    key: str
    limit: float
    op: str | None = None

    @property
    def name(self) -> str:
        """The key as it is written in the file."""
        return self.key if self.op is None else f'op."{self.op}".{self.key}'


class BudgetError(ProfsuiteError):
    """A budget file that cannot be read: the message names the file, the line and the key."""


def read_budgets(path: str) -> tuple[Budget, ...]:
    """The limits in a TOML file; ``BudgetError`` for unknown keys and for values that are no numbers."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except OSError as error:
        raise BudgetError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:  # tomllib names line and column
        raise BudgetError(f"{path}: is no TOML: {error}") from None
    return budgets(data, path, text)


def budgets(data: dict[str, Any], source: str = "budget", text: str = "") -> tuple[Budget, ...]:
    """The limits in a parsed file; ``text``, as written, is for naming the line of a wrong key."""
    found = []
    for key, value in data.items():
        if key == "op":
            found += _of_ops(value, source, text)
        elif key in LIMITS:
            found.append(Budget(key=key, limit=_number(value, key, source, text)))
        else:
            raise BudgetError(f"{_place(source, text, key)}: unknown key {key!r}; there are {', '.join(LIMITS)}, op")
    return tuple(found)


def _of_ops(ops: Any, source: str, text: str) -> list[Budget]:
    if not isinstance(ops, dict) or not all(isinstance(limits, dict) for limits in ops.values()):
        raise BudgetError(f'{_place(source, text, "op")}: write op."aten::mm".{next(iter(OP_LIMITS))} = 1.5')
    found = []
    for op, limits in ops.items():
        for key, value in limits.items():
            if key not in OP_LIMITS:
                place = _place(source, text, key)
                raise BudgetError(f'{place}: unknown key {key!r} of op "{op}"; there are {", ".join(OP_LIMITS)}')
            found.append(Budget(key=key, op=op, limit=_number(value, key, source, text)))
    return found


def _number(value: Any, key: str, source: str, text: str) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not math.isfinite(value) or value < 0:
        raise BudgetError(f"{_place(source, text, key)}: {key} must be a number from 0, not {value!r}")
    return float(value)


def _place(source: str, text: str, key: str) -> str:
    """The file and, where the key is found in it, the line."""
    written = re.compile(rf"(?:^|[\s.\[\"']){re.escape(key)}[\"']?\s*[=.\]]")
    for number, line in enumerate(text.splitlines(), 1):
        if written.search(line):
            return f"{source}, line {number}"
    return source
