"""Dumps of torch.distributed's flight recorder: pickled (``nccl_trace_rank_N``, ``_dump_fr_trace``) or JSON.

A dump is what one rank's ring held when a timeout or a user asked for it: its last collectives, and how far each is.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from profsuite.errors import MissingExtraError, TraceError
from profsuite.trace.header import rank_in_name
from profsuite.trace.readers import plain_pickle
from profsuite.trace.source import is_packed

LARGEST = 1 << 28
"""Bytes of a dump: the ring of 2,000 entries with stacks takes a few MB."""
FILE = "flight_recorder.json"
_NAMES = re.compile(
    r"(?:trace|recorder)\w*rank_?\d+(?:\.(?:pkl|pickle|json))?$|^rank_?\d+$|^flight_recorder\.(?:json|pkl|pickle)$"
)
_OWN_FRAME = re.compile(r"(?:^|/)(?:torch|site-packages|dist-packages)/")


@dataclass(frozen=True, slots=True)
class FlightEntry:
    """One collective or point-to-point operation that a rank called.

    ``sequence`` counts within the group, of point-to-point operations by themselves.  ``completed`` is true where the
    entry says so or was retired.  ``sizes`` and ``dtypes`` are of inputs, then outputs, as text.  ``source`` is the
    user's innermost frame, null without stacks.
    """

    group: str
    group_id: int | None
    sequence: int
    is_p2p: bool
    name: str
    state: str
    completed: bool
    sizes: str
    dtypes: str
    created_ns: int | None
    source: str | None


@dataclass(frozen=True, slots=True)
class FlightDump:
    """What one rank's ring held, oldest first; ``rank`` null where neither file nor folder names it.

    ``members`` are the ranks of each group by its name, ``descriptions`` what the groups are called, ``last_called``
    and ``last_completed`` sequence numbers by group, also of what the ring does not hold any more.
    """

    rank: int | None
    source: str
    entries: tuple[FlightEntry, ...]
    members: dict[str, tuple[int, ...]]
    descriptions: dict[str, str]
    last_called: dict[str, int]
    last_completed: dict[str, int]


def find_dumps(path: str | os.PathLike[str]) -> list[str]:
    """The dumps in a folder and the folders in it, by name; a file is itself.  ``TraceError`` if there are none."""
    folder = Path(path)
    if not folder.is_dir():
        return [os.fspath(path)]
    found = sorted(
        str(Path(base) / name)
        for base, folders, names in os.walk(folder)
        if len(Path(base).relative_to(folder).parts) <= 4 and _shallow(folders)
        for name in names
        if _NAMES.search(name)
    )
    if not found:
        raise TraceError(f"{folder}: holds no dump of the flight recorder (nccl_trace_rank_N, rank_N, {FILE})")
    return found


def _shallow(folders: list[str]) -> bool:
    folders[:] = sorted(name for name in folders if not name.startswith("."))
    return True


def read_flight(path: str | os.PathLike[str]) -> FlightDump:
    """Read a dump; ``TraceError`` in one line where it is none."""
    name = os.fspath(path)
    data = _bytes(name)
    if (other := _other_kind(data)) is not None:
        raise TraceError(f"{name}: is no dump of the flight recorder but {other}; of a trace: profsuite analyze {name}")
    try:
        dump = json.loads(data) if data.lstrip()[:1] == b"{" else plain_pickle.loads(data)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{name}: is no JSON ({error})") from None
    except TraceError as error:
        if data[:1] != b"\x80":
            raise TraceError(f"{name}: is no dump of the flight recorder: neither JSON nor a pickle") from None
        raise TraceError(f"{name}: {error}") from None
    if isinstance(dump, dict) and isinstance(dump.get("traceEvents"), list):
        raise TraceError(f"{name}: is a trace, no dump of the flight recorder: profsuite analyze {name}")
    if not isinstance(dump, dict) or not isinstance(dump.get("entries"), list):
        raise TraceError(f"{name}: is no dump of the flight recorder (it has no list of entries)")
    entries = [entry for raw in dump["entries"] if isinstance(raw, dict) and (entry := _entry(raw)) is not None]
    if dump["entries"] and not entries:
        raise TraceError(f"{name}: none of its entries is a collective")
    descriptions = {}
    for raw in dump["entries"]:
        group = raw.get("process_group") if isinstance(raw, dict) else None
        if isinstance(group, list | tuple) and len(group) > 1 and group[1]:
            descriptions[_word(group[0])] = _word(group[1])
    called, completed = _status(dump.get("pg_status"), entries)
    return FlightDump(
        rank=_rank(name),
        source=name,
        entries=tuple(entries),
        members=_members(dump.get("pg_config")),
        descriptions=descriptions,
        last_called=called,
        last_completed=completed,
    )


def _bytes(name: str) -> bytes:
    try:
        if "://" in name:
            import fsspec

            with fsspec.open(name, "rb") as stream:
                data = stream.read(LARGEST + 1)
        else:
            with Path(name).open("rb") as stream:
                data = stream.read(LARGEST + 1)
    except FileNotFoundError:
        raise TraceError(f"{name}: no such file") from None
    except ImportError as error:
        raise MissingExtraError(f"{name}: {error}") from error
    except (OSError, ValueError) as error:
        raise TraceError(f"{name}: cannot be opened: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > LARGEST:
        raise TraceError(f"{name}: is larger than {LARGEST >> 20} MiB; a dump of the flight recorder is not")
    if not data:
        raise TraceError(f"{name}: is empty (0 bytes)")
    return bytes(data)


def _other_kind(data: bytes) -> str | None:
    """What a file is by its first bytes, where no dump begins with them; null of what may be one."""
    if is_packed(data):
        return "compressed (gzip or zstd), as traces are"
    if data.lstrip()[:1] == b"[":
        return "a JSON list"
    return None


def _rank(name: str) -> int | None:
    """The rank in the file's name, else in its folder's."""
    path = PurePosixPath(name.replace("\\", "/"))
    rank = rank_in_name(path.name)
    return rank_in_name(path.parent.name) if rank is None else rank


def _entry(raw: dict[str, Any]) -> FlightEntry | None:
    is_p2p = bool(raw.get("is_p2p"))
    sequence = _whole(raw.get("p2p_seq_id" if is_p2p else "collective_seq_id", raw.get("seq_id")))
    group = raw.get("process_group")
    if sequence is None:
        return None
    if isinstance(group, list | tuple) and group:
        name = _word(group[0])
    else:
        name = _word(raw.get("pg_id", ""))
    state = _word(raw.get("state") or "")
    return FlightEntry(
        group=name,
        group_id=_whole(raw.get("pg_id")),
        sequence=sequence,
        is_p2p=is_p2p,
        name=_word(raw.get("profiling_name") or "").rpartition(":")[2],
        state=state,
        completed=state == "completed" or raw.get("retired") is True,
        sizes=_text(raw.get("input_sizes")) + " -> " + _text(raw.get("output_sizes")),
        dtypes=_text(raw.get("input_dtypes")) + " -> " + _text(raw.get("output_dtypes")),
        created_ns=_whole(raw.get("time_created_ns")),
        source=_source(raw.get("frames")),
    )


def _text(value: Any) -> str:
    """A list of numbers, texts or such lists as text; nothing deeper."""
    if not isinstance(value, list | tuple):
        return "?"
    parts = (f"[{', '.join(map(_word, v[:16]))}]" if isinstance(v, list | tuple) else _word(v) for v in value[:64])
    return ", ".join(parts)


def _word(value: Any) -> str:
    """A text or a number as text; containers, which a hostile dump may have nested without end, as a mark."""
    return str(value)[:4096] if isinstance(value, str | int | float) else "?"


def _source(frames: Any) -> str | None:
    """``train.py(88): step``: the innermost frame that is not torch's or an installed package's, else the innermost."""
    named = [
        f"{_word(frame.get('filename'))}({_word(frame.get('line'))}): {_word(frame.get('name'))}"
        for frame in (frames if isinstance(frames, list) else [])[:1000]
        if isinstance(frame, dict) and _word(frame.get("filename")).endswith(".py")
    ]
    return next((text for text in named if not _OWN_FRAME.search(text)), named[0] if named else None)


def _members(config: Any) -> dict[str, tuple[int, ...]]:
    """Ranks of the groups; gloo files its groups under no name and without ranks."""
    found = {}
    for name, group in config.items() if isinstance(config, dict) else ():
        ranks = group.get("ranks") if isinstance(group, dict) else None
        try:
            ranks = json.loads(ranks) if isinstance(ranks, str) else ranks
        except (ValueError, RecursionError):
            continue
        if isinstance(ranks, list) and ranks and all(_whole(rank) is not None for rank in ranks):
            found[str(name)] = tuple(ranks)
    return found


def _status(status: Any, entries: list[FlightEntry]) -> tuple[dict[str, int], dict[str, int]]:
    """The last called and the last completed collective of each group, from the status of groups and the entries."""
    called: dict[str, int] = {}
    completed: dict[str, int] = {}
    names = {entry.group_id: entry.group for entry in entries}
    for number, row in status.items() if isinstance(status, dict) else ():
        group = names.get(_whole(number))
        if group is None or not isinstance(row, dict):
            continue
        for found, key in ((called, "last_enqueued_collective"), (completed, "last_completed_collective")):
            value = _whole(row.get(key))
            if value is not None:
                found[group] = value
    for entry in entries:
        if not entry.is_p2p:
            called[entry.group] = max(called.get(entry.group, 0), entry.sequence)
            if entry.completed:
                completed[entry.group] = max(completed.get(entry.group, 0), entry.sequence)
    return called, completed


def _whole(value: Any) -> int | None:
    """A number that is not negative, also as text; else null."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None
