"""JAX's log folder: ``plugins/profile/<run>/<host>.xplane.pb``, beside each the same as ``<host>.trace.json.gz``.

A run may hold ``perfetto_trace.json.gz`` too, once more the first host.  Each is one recording in several formats: the
planes count, as they hold what the converters leave out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from profsuite.errors import TraceError

XPLANE: Final = ".xplane.pb"
_JSON: Final = ".trace.json.gz"
_PERFETTO: Final = "perfetto_trace.json.gz"


def is_profile(path: Path) -> bool:
    """Whether a path lies where XLA's profilers write."""
    return path.parent.parent.name == "profile" and path.parent.parent.parent.name == "plugins"


def preferred(files: list[Path]) -> list[Path]:
    """The files of one folder without the copies of what another of them holds."""
    hosts = {path.name.removesuffix(XPLANE) for path in files if path.name.endswith(XPLANE)}
    if not hosts and not any(is_profile(path) for path in files):
        return files
    converted = {path.name for path in files if path.name.endswith(_JSON) and path.name != _PERFETTO}
    return [
        path
        for path in files
        if not (path.name == _PERFETTO and (hosts or converted))
        and not (path.name.endswith(_JSON) and path.name.removesuffix(_JSON) in hosts)
    ]


def one_run(name: str, files: list[Path]) -> None:
    """``TraceError`` where files are of several runs: each is a recording of its own."""
    runs = sorted({path.parent for path in files if is_profile(path)})
    if len(runs) > 1:
        raise TraceError(
            f"{name}: holds {len(runs)} profiles of XLA, from {runs[0].name} to {runs[-1].name}; name one of them "
            f"(the newest is {runs[-1]})"
        )


def rank_in_run(path: Path) -> int | None:
    """The number of a host among those of its run, by name; None of the only host, and of other files."""
    ending = XPLANE if path.name.endswith(XPLANE) else _JSON
    if not path.name.endswith(ending) or path.name == _PERFETTO:
        return None
    if not (is_profile(path) or ending == XPLANE):
        return None
    try:
        hosts = sorted(each.name for each in path.parent.iterdir() if each.name.endswith(ending))
    except OSError:
        return None
    hosts = [host for host in hosts if host != _PERFETTO]
    return hosts.index(path.name) if len(hosts) > 1 and path.name in hosts else None
