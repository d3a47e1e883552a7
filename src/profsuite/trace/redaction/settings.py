"""``Redaction``: what is to be redacted, as plain values that can be sent to another process."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from profsuite.trace.redaction.rules import OwnRule


class Level(IntEnum):
    """How much is redacted; each level does what those below it do, too."""

    LOW = 0
    """Keys and tokens of known forms, values of secret names, e-mail addresses, logins in URLs, user names."""
    MEDIUM = 1
    """Also hosts, IP addresses, URLs, paths outside the project, values of the environment, what looks random."""
    HIGH = 2
    """Also the project's own names: files, functions, modules, annotations, parameters, the command line."""


LEVELS: Final = {level.name.lower(): level for level in Level}
"""The levels by the names that ``--sensitivity`` takes."""


@dataclass(frozen=True, slots=True)
class Redaction:
    """What to redact.

    ``level`` is null where only ``opt_out`` is wanted.  ``projects`` are folders whose files are shown by their path
    within it.  ``rules`` are the user's own.  ``opt_out`` are globs of modules, functions and annotations that are
    removed.  ``key`` makes pseudonyms those of every run with the same key; without one they are numbered.
    """

    level: Level | None = Level.MEDIUM
    projects: tuple[str, ...] = ()
    rules: tuple[OwnRule, ...] = ()
    opt_out: tuple[str, ...] = ()
    key: bytes | None = None
