"""profsuite: where a PyTorch job's time and memory go, and what to change.

``profsuite.load("trace.json")`` gives a ``Trace``; ``profsuite.analyze(trace)`` a ``Report``;
``profsuite.export(trace, "trace.pftrace")`` writes it in another format;
``profsuite.analyze_job("run/")`` what the ranks of a job say together;
``profsuite.diff(before, after)`` a ``DiffReport``;
``with profsuite.profile("runs/exp1") as prof`` records one.
Everything is imported on first use, so that ``import profsuite`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from profsuite.analyzers.costs.call import OpCall
    from profsuite.analyzers.costs.registry import Cost, costs, register_cost
    from profsuite.analyzers.diff.report import DiffReport, diff
    from profsuite.analyzers.job.report import JobReport
    from profsuite.analyzers.job.run import analyze_job
    from profsuite.analyzers.report import Report, analyze
    from profsuite.collector.annotate import annotate
    from profsuite.collector.profiler import profile
    from profsuite.collector.schedule import schedule
    from profsuite.errors import MissingExtraError, ProfsuiteError, SelectionError, TraceError
    from profsuite.exporters.export import export
    from profsuite.trace.load import find_ranks, load
    from profsuite.trace.model import Trace
    from profsuite.trace.redaction.tables import redact

__version__ = "0.1.0"

__all__ = [
    "Cost",
    "DiffReport",
    "JobReport",
    "MissingExtraError",
    "OpCall",
    "ProfsuiteError",
    "Report",
    "SelectionError",
    "Trace",
    "TraceError",
    "__version__",
    "analyze",
    "analyze_job",
    "annotate",
    "costs",
    "diff",
    "export",
    "find_ranks",
    "load",
    "profile",
    "redact",
    "register_cost",
    "schedule",
]

_HOME = {
    "Cost": "profsuite.analyzers.costs",
    "OpCall": "profsuite.analyzers.costs",
    "costs": "profsuite.analyzers.costs",
    "register_cost": "profsuite.analyzers.costs",
    "DiffReport": "profsuite.analyzers.diff.report",
    "diff": "profsuite.analyzers.diff.report",
    "Report": "profsuite.analyzers.report",
    "analyze": "profsuite.analyzers.report",
    "JobReport": "profsuite.analyzers.job.report",
    "analyze_job": "profsuite.analyzers.job.run",
    "MissingExtraError": "profsuite.errors",
    "ProfsuiteError": "profsuite.errors",
    "SelectionError": "profsuite.errors",
    "TraceError": "profsuite.errors",
    "find_ranks": "profsuite.trace.load",
    "load": "profsuite.trace.load",
    "Trace": "profsuite.trace.model",
    "annotate": "profsuite.collector.annotate",
    "export": "profsuite.exporters.export",
    "profile": "profsuite.collector.profiler",
    "redact": "profsuite.trace.redaction.tables",
    "schedule": "profsuite.collector.schedule",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'profsuite' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
