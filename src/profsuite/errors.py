"""Every error that profsuite raises on purpose.

ProfsuiteError
├── TraceError        a file, folder or stream that cannot be read as a trace
├── SelectionError    a rank, step or time range that the trace does not have
├── MissingExtraError an optional package that is not installed
├── BudgetError       a budget file that is wrong: defined in analyzers.check.budget
└── of the collector  BusyError, BuildError, RecorderError, CuptiError: defined where they are raised
"""

from __future__ import annotations


class ProfsuiteError(Exception):
    """Base of all; ``str(error)`` is one line that names the file, the place, the cause and the remedy."""


class TraceError(ProfsuiteError):
    """The input cannot be read as a trace."""


class SelectionError(ProfsuiteError):
    """The trace has no such rank, step or time range."""


class MissingExtraError(ProfsuiteError):
    """An optional package is not installed; the message says how to install it."""
