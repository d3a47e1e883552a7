"""Traces without what gives something away: their tables, a file's raw columns, allocator snapshots.

Texts are dictionary encoded, so each distinct one is looked at once, however many rows have it.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import pyarrow as pa

from profsuite.trace.classes import Role, category_roles
from profsuite.trace.columns import Text, strings, table_of
from profsuite.trace.header import rank_in_name
from profsuite.trace.redaction import opt_out
from profsuite.trace.redaction.project_names import NAMERS, annotation, fact, frames
from profsuite.trace.redaction.redactor import Redactor
from profsuite.trace.redaction.rules import read_rules
from profsuite.trace.redaction.settings import LEVELS, Level, Redaction
from profsuite.trace.schema import BY_NAME, TABLES
from profsuite.trace.snapshot import SNAPSHOT_TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from profsuite.trace.model import Trace, TraceInfo
    from profsuite.trace.schema import Table
    from profsuite.trace.snapshot import Snapshot
    from profsuite.trace.spill import Spill

ANNOTATIONS: Final = (Role.ANNOTATION, Role.DEVICE_ANNOTATION)
LAYOUT: Final = frozenset(
    (("flow", "phase"), ("kernel", "kind"), ("track", "kind"), ("tensor", "role"), ("slice", "category"))
)
"""Columns whose words are the reader's own, or Kineto's: nothing of a file's own stands in them but in ``category``."""


def redact(
    trace: Trace,
    sensitivity: str = "medium",
    *,
    opt_out: Sequence[str] = (),
    rules: str | os.PathLike[str] | None = None,
    projects: Sequence[str | os.PathLike[str]] = (),
    key: bytes | None = None,
) -> Trace:
    """A trace as it may be given away; docs/redaction.md says what ``sensitivity`` low, medium and high hide.

    ``opt_out`` are globs of modules, functions and annotations that are removed, ``rules`` a file of own rules,
    ``projects`` folders whose files are shown by their path within them.  With a ``key`` pseudonyms are those of every
    trace that is redacted with it.  ``ValueError`` for another sensitivity, ``RuleError`` where the rules are wrong.
    """
    if sensitivity not in LEVELS:
        raise ValueError(f"sensitivity is {sensitivity!r}; choose from {', '.join(LEVELS)}")
    found = () if rules is None else read_rules(os.fspath(rules))
    folders = tuple(os.path.abspath(folder) for folder in projects)  # noqa: PTH100
    return redact_trace(trace, Redactor(Redaction(LEVELS[sensitivity], folders, found, tuple(opt_out), key)))


def redact_trace(trace: Trace, redactor: Redactor) -> Trace:
    """A trace as it may be given away: nothing that an exporter or an analyzer reads of it holds the rest."""
    if redactor.opt_out:
        trace = opt_out.without(trace, redactor.opt_out, redactor.report)
    columns = {
        (spec.name, column.name): opt_out.text_of(trace.table(spec.name), column.name)
        for spec in TABLES
        for column in spec.columns
        if column.dtype == "text"
    }
    used = {place: np.unique(text.codes[text.codes >= 0]) for place, text in columns.items()}
    for (name, _), text in columns.items():
        if name != "metadata":
            redactor.learn(_words(text.pool))
    facts, fact_of_row = _facts(columns)
    for _, key, value in facts:
        redactor.learn_value(value, key)
    _learn_info(trace.info, redactor)

    marked = _annotated(trace, columns["slice", "name"]) if redactor.level == Level.HIGH else frozenset[int]()
    tables: dict[str, pa.Table] = {}
    for spec in TABLES:
        new: dict[str, Text] = {}
        for column in spec.columns:
            place = (spec.name, column.name)
            if column.dtype != "text" or place == ("metadata", "value"):
                continue
            new[column.name] = _rewritten(columns[place], used[place], _namer(redactor, place, marked))
        if spec.name == "metadata":
            new["value"] = _encoded([_fact(redactor, *each) for each in facts], fact_of_row)
        tables[spec.name] = with_texts(trace.table(spec.name), spec, new)
    redactor.report.num_traces += 1
    return replace(trace, tables=tables, info=redact_info(trace.info, redactor), _cache={})


def redact_info(info: TraceInfo, redactor: Redactor) -> TraceInfo:
    """What is said of a whole recording; its rank stays known, and its source tells one file from another."""
    devices = tuple(_plain(device, redactor, "info.devices") for device in info.devices)
    return replace(
        info,
        source=source_name(info.source, redactor),
        backend=None if info.backend is None else redactor.text(info.backend, "info.backend"),
        selection=None if info.selection is None else redactor.text(info.selection, "info.selection"),
        devices=cast("Any", devices),
    )


def source_name(source: str, redactor: Redactor) -> str:
    """What an input is called: the name of its file, its folder as a pseudonym, and the rank that it says."""
    if redactor.level is None or source in ("", "-"):
        return redactor.text(source, "info.source")
    plain = source.replace("\\", "/").rstrip("/")
    folder, slash, file = plain.rpartition("/")
    if redactor.level == Level.HIGH:
        named = redactor.named("file", plain, "info.source")
    else:
        named = redactor.text(file, "info.source")
        if redactor.level >= Level.MEDIUM and slash:
            shown = (
                redactor.path(f"{folder}/.py")
                if folder.startswith("/") or ":" in folder
                else redactor.text(folder, "info.source")
            )
            named = f"{shown.removesuffix('.py').rstrip('/')}/{named}"
        elif slash:
            named = f"{redactor.text(folder, 'info.source')}/{named}"
    known = rank_in_name(source)
    if known is not None and rank_in_name(named) != known:
        named = f"{named}.rank{known}"
    return named


# ---------------------------------------------------------------- a file's raw columns
def redact_spill(spill: Spill, redactor: Redactor) -> Spill:
    """The raw columns of a file as they may be given away: its pools, its header, the names of its tracks.

    Slices cannot be removed from it: with ``opt_out`` the whole trace is loaded instead.
    """
    header, tracks = spill.manifest["header"], spill.manifest["tracks"]
    words = {pool: _words(array) for pool, array in spill.pools.items()}
    for pool, texts in words.items():
        if pool != "meta_value":
            redactor.learn(texts)
    facts = _meta_facts(spill, words)
    for key, value in (*((key, value) for _, key, value in facts), *header):
        redactor.learn_value(value, key)
    redactor.learn_value(spill.source)

    high = redactor.level == Level.HIGH
    marked = _annotated_in_spill(spill) if high else frozenset[int]()
    for pool, texts in words.items():
        if pool == "meta_value":
            known = {value: value for value in texts}
            for scope, key, value in facts:  # what any of its keys asks for
                if known[value] == value:
                    known[value] = _fact(redactor, scope, key, value)
            new = [known[text] for text in texts]
        else:
            name = _namer(redactor, _POOL_PLACES.get(pool, ("", pool)), marked)
            new = [name(code, text) for code, text in enumerate(texts)]
        spill.pools[pool] = strings(new)
    spill.manifest = {
        **spill.manifest,
        "header": [[redactor.text(key, "metadata.key"), _fact(redactor, "file", key, value)] for key, value in header],
        "tracks": [[redactor.text(pid, "track.pid"), redactor.text(tid, "track.tid")] for pid, tid in tracks],
        "remarks": [{**r, "message": redactor.text(r["message"], "health.message")} for r in spill.manifest["remarks"]],
    }
    spill.source = source_name(spill.source, redactor)
    redactor.report.num_traces += 1
    return spill


_POOL_PLACES: Final = {
    "name": ("slice", "name"), "category": ("slice", "category"), "shape": ("op", "input_dims"),
    "types": ("op", "input_types"), "concrete": ("op", "concrete_inputs"), "stack": ("op", "call_stack"),
    "module": ("op", "module_hierarchy"),
    "meta_name": ("metadata", "scope"), "meta_key": ("metadata", "key"), "series": ("counter", "series"),
}  # fmt: skip
"""The column of the tables that each pool of strings is for."""


def _meta_facts(spill: Spill, words: dict[str, list[str]]) -> list[tuple[str, str, str]]:
    """The distinct (name, key, value) of metadata events."""
    codes: set[tuple[int, int, int]] = set()
    if spill.manifest["rows"].get("meta"):
        for batch in spill.batches("meta", ("name", "key", "value")):
            each = np.unique(np.stack([batch[name] for name in ("name", "key", "value")], axis=1), axis=0)
            codes.update(cast("list[tuple[int, int, int]]", [tuple(row) for row in each.tolist() if min(row) >= 0]))
    return [(words["meta_name"][s], words["meta_key"][k], words["meta_value"][v]) for s, k, v in sorted(codes)]


def _annotated_in_spill(spill: Spill) -> frozenset[int]:
    """The codes of names that only annotations have."""
    roles = np.append(category_roles(_words(spill.pools["category"])), np.int8(Role.OTHER))
    marks, others = np.zeros((2, len(spill.pools["name"]) + 1), bool)
    for batch in spill.batches("slice", ("name", "category")):
        is_mark = np.isin(roles[batch["category"]], ANNOTATIONS)
        marks[batch["name"][is_mark]] = True
        others[batch["name"][~is_mark]] = True
    return frozenset(np.flatnonzero((marks & ~others)[:-1]).tolist())


# ---------------------------------------------------------------- allocator snapshots
def redact_snapshot(snapshot: Snapshot, redactor: Redactor) -> Snapshot:
    """A snapshot of the allocator as it may be given away; frames that were opted out keep their place, unnamed."""
    tables: dict[str, pa.Table] = {}
    columns = {
        (spec.name, column.name): opt_out.text_of(snapshot.table(spec.name), column.name)
        for spec in SNAPSHOT_TABLES
        for column in spec.columns
        if column.dtype == "text"
    }
    for text in columns.values():
        redactor.learn(_words(text.pool))
    redactor.learn_value(snapshot.source)
    for spec in SNAPSHOT_TABLES:
        new = {}
        for column in spec.columns:
            if column.dtype == "text":
                text = columns[spec.name, column.name]
                used = np.unique(text.codes[text.codes >= 0])
                new[column.name] = _rewritten(
                    text, used, _namer(redactor, (f"snapshot {spec.name}", column.name), frozenset())
                )
        tables[spec.name] = with_texts(snapshot.table(spec.name), spec, new)
    settings = {key: redactor.value(value, "snapshot.settings", key) for key, value in snapshot.settings.items()}
    redactor.report.num_traces += 1
    source = source_name(snapshot.source, redactor)
    return replace(snapshot, source=source, tables=tables, settings=settings, _cache={})


# ---------------------------------------------------------------- columns
def with_texts(table: pa.Table, spec: Table, texts: dict[str, Text]) -> pa.Table:
    """The table with these text columns in place of its own."""
    if not texts:
        return table
    given: dict[str, Any] = {}
    for column in spec.columns:
        if column.name in texts:
            given[column.name] = texts[column.name]
        else:
            whole: Any = table.column(column.name).combine_chunks()
            given[column.name] = whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)
    return table_of(spec, given)


def _namer(redactor: Redactor, place: tuple[str, str], marked: frozenset[int]) -> Callable[[int, str], str]:
    """What rewrites the words of a column, each with its code."""
    column = ".".join(place)
    if place in LAYOUT and place != ("slice", "category"):
        return lambda _, text: text
    json_column = place[0] in BY_NAME and place[1] in _JSON.get(place[0], ())
    high = NAMERS.get(place) if redactor.level == Level.HIGH else None

    def name(code: int, text: str) -> str:
        new = redactor.value(text, column) if json_column and '"' in text else redactor.text(text, column)
        if redactor.level != Level.HIGH:
            return new
        if code in marked and place == ("slice", "name"):
            return annotation(new, redactor, column)
        return high(new, redactor, column) if high is not None else frames(new, redactor, column)

    return name


_JSON: Final = {spec.name: tuple(c.name for c in spec.columns if c.unit == "JSON") for spec in TABLES}


def _words(pool: Any) -> list[str]:
    return cast("list[str]", [word or "" for word in pool.to_pylist()])


def _rewritten(text: Text, used: NDArray[np.int32], name: Callable[[int, str], str]) -> Text:
    """A text column with its words rewritten: only those that rows have, and each once."""
    words = _words(text.pool.take(cast("Any", pa.array(used))))
    numbers: dict[str, int] = {}
    table = np.full(len(text.pool) + 1, -1, np.int32)
    for code, word in zip(used.tolist(), words, strict=True):
        table[code] = numbers.setdefault(name(code, word), len(numbers))
    return Text(table[text.codes], strings(list(numbers)))


def _encoded(words: list[str], rows: NDArray[np.int64]) -> Text:
    """A text column of ``words[rows]``."""
    numbers: dict[str, int] = {}
    codes = np.array([numbers.setdefault(word, len(numbers)) for word in words], np.int32)
    return Text(codes[rows], strings(list(numbers)))


def _fact(redactor: Redactor, scope: str, key: str, value: str) -> str:
    """The value of one fact of ``metadata``."""
    new = redactor.value(value, "metadata.value", key)
    return fact(scope, key, new, redactor, "metadata.value") if redactor.level == Level.HIGH else new


def _facts(columns: dict[tuple[str, str], Text]) -> tuple[list[tuple[str, str, str]], NDArray[np.int64]]:
    """The distinct scope, key and value of ``metadata``, "" where null, and which of them each row has."""
    parts = [columns["metadata", name] for name in ("scope", "key", "value")]
    words = [["", *_words(text.pool)] for text in parts]
    number = np.zeros(len(parts[0].codes), np.int64)
    for text, known in zip(parts, words, strict=True):
        _, number = np.unique(number.reshape(-1) * len(known) + text.codes + 1, return_inverse=True)
    _, first, rows = np.unique(number, return_index=True, return_inverse=True)
    found = [tuple(known[text.codes[row] + 1] for text, known in zip(parts, words, strict=True)) for row in first]
    return cast("list[tuple[str, str, str]]", found), rows.reshape(-1)


def _annotated(trace: Trace, names: Text) -> frozenset[int]:
    """The codes of slices' names that only annotations have."""
    is_mark = np.isin(trace.roles, ANNOTATIONS)
    marks, others = np.zeros((2, len(names.pool) + 1), bool)
    marks[names.codes[is_mark]] = True
    others[names.codes[~is_mark]] = True
    return frozenset(np.flatnonzero((marks & ~others)[:-1]).tolist())


def _learn_info(info: TraceInfo, redactor: Redactor) -> None:
    redactor.learn_value(info.source)
    for device in info.devices:
        for text in _texts(device):
            redactor.learn_value(text)


def _texts(value: Any) -> Iterable[str]:
    """The texts in plain values."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            waiting += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple):
            waiting += item


def _plain(value: Any, redactor: Redactor, column: str) -> Any:
    """Plain values, by way of their JSON, with the texts in them redacted."""
    import json

    text = json.dumps(value, ensure_ascii=False)
    new = redactor.value(text, column)
    return value if new == text else json.loads(new)
