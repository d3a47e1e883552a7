"""PyTorch's execution trace, host and device linked: what MLCommons' Chakra converts and its simulators replay.

The JSON is that of torch's ``ExecutionTraceObserver`` (schema 1.1.1-chakra.0.0.4) with the times, and the device work
as nodes below their ops, that Chakra's ``trace_link`` adds.  Every node is one line.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from profsuite.exporters.chakra_inputs import inputs_json
from profsuite.exporters.chakra_nodes import ROOT, USER, Nodes, find_nodes
from profsuite.exporters.json_words import numbered, string
from profsuite.exporters.rows import Op, Part, Rendering, literal, when, words
from profsuite.trace.readers.fields import NULL_INT64
from profsuite.trace.schema import BY_NAME

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.exporters.rows import Words
    from profsuite.exporters.source import Source
    from profsuite.exporters.target import Target
    from profsuite.trace.model import Trace

SCHEMA: Final = "1.1.1-chakra.0.0.4"
PROCESS, THREAD = ("[pytorch|profiler|execution_trace|process]", "[pytorch|profiler|execution_trace|thread]")
NOTHING: Final = b'{"values": [], "shapes": [], "types": [], "strides": []}'
COLLECTIVE: Final = (
    ("collective_name", "collective_name", "string"), ("dtype", "dtype", "string"),
    ("in_msg_nelems", "in_nelems", "uint64"), ("out_msg_nelems", "out_nelems", "uint64"),
    ("in_split_size", "in_split", "string"), ("out_split_size", "out_split", "string"),
    ("pg_name", "group_name", "string"), ("pg_desc", "group_description", "string"),
    ("pg_size", "group_size", "uint64"),
)  # fmt: skip
"""Attributes of a collective: name, column of table ``collective``, type."""


@dataclass(frozen=True, slots=True)
class Chakra:
    """The format."""

    name: str = "chakra"
    suffix: str = ".chakra.json"
    carries: str = (
        "Ops and annotations with parents, inputs and times, and the device work of each: an execution trace."
    )
    compresses: bool = True
    merges: bool = False

    def write(self, source: Source, target: Target) -> str:
        """Write one file."""
        trace = source.trace()
        nodes = find_nodes(trace)
        with target.open() as out:
            out.write(_head(trace, nodes))
            out.write(Rendering(len(nodes.row), _lines(trace, nodes)))
            out.write(_foot(trace, nodes))
        return f"{len(nodes.row) + 1:,} nodes"


FORMAT = Chakra()


def _head(trace: Trace, nodes: Nodes) -> bytes:
    """Top-level keys and the node of the process."""
    tracks = trace.tracks
    track = int(nodes.track[0]) if len(nodes.track) else -1
    pid = str(tracks.column("pid")[track].as_py()) if track >= 0 else ""
    start, _ = _extent(trace, nodes)
    base = trace.info.base_time_ns
    known = base is not None and 0 <= base + start < 2**62
    at = datetime.fromtimestamp((base + start) / 1e9, UTC).strftime("%Y-%m-%d %X") if base is not None and known else ""
    top = {
        "schema": SCHEMA,
        "pid": int(pid) if pid.isascii() and pid.isdecimal() and len(pid) < 19 else 0,
        "time": at,
        "start_ts": max(0, start // 1_000_000),
    }
    attrs = [
        *((name, "uint64", 0) for name in ("rf_id", "fw_parent")),
        ("seq_id", "int64", -1),
        ("scope", "uint64", USER),
        *((name, "uint64", 0) for name in ("tid", "fw_tid")),
        *((name, "string", "") for name in ("op_schema", "kernel_backend", "kernel_file", "tensor_range")),
    ]
    said = json.dumps([{"name": name, "type": kind, "value": value} for name, kind, value in attrs])
    node = (
        f'{{"id": {ROOT}, "name": {json.dumps(PROCESS)}, "ctrl_deps": {ROOT}, "inputs": {NOTHING.decode()}, '
        f'"outputs": {NOTHING.decode()}, "attrs": {said}}}'
    )
    return f'{json.dumps(top)[:-1]},\n"nodes": [\n{node}'.encode()


def _foot(trace: Trace, nodes: Nodes) -> bytes:
    return f'\n],\n"finish_ts": {max(0, _extent(trace, nodes)[1] // 1_000_000)}}}\n'.encode()


def _extent(trace: Trace, nodes: Nodes) -> tuple[int, int]:
    rows = nodes.row[nodes.row >= 0]
    if not len(rows):
        return 0, 0
    return int(trace.array("slice", "ts")[rows].min()), int(trace.end[rows].max())


def _lines(trace: Trace, nodes: Nodes) -> list[Part]:
    """Every node but the first."""
    is_thread = nodes.row < 0
    op = _rows_by_slice(trace, "op")[nodes.op_row]  # of the op of device work; -1 where there is none
    index = nodes.row.astype(np.int32)
    ids = ROOT + 1 + np.arange(len(index), dtype=np.int64)
    names = [*trace.words("slice", "name"), THREAD]
    name = np.append(trace.array("slice", "name"), np.int32(len(names) - 1))  # the last is that of threads
    inputs, input_words = _inputs(trace)
    without = (op < 0) | (inputs[np.maximum(op, 0)] < 0 if len(inputs) else True)
    collective, collective_words = _collectives(trace)
    group = trace.array("collective", "group_name")
    groups = words([string(each) for each in trace.words("collective", "group_name")])
    by_slice = _rows_by_slice(trace, "collective")
    told = np.where(by_slice[nodes.row] >= 0, by_slice[nodes.row], by_slice[nodes.op_row])
    stream = _streams(trace)
    function = trace.array("op", "record_function_id", null=0)
    function = np.where(op >= 0, np.maximum(0, function[op]), 0) if len(function) else np.zeros(len(op), np.int64)

    def attr(title: str, kind: str, first: bool = False) -> bytes:
        comma = "" if first else ", "
        return f'{comma}{{"name": "{title}", "type": "{kind}", "value": '.encode()

    def number(title: str, values: NDArray[np.int64], kind: str = "uint64", first: bool = False) -> list[Part]:
        return [Part(Op.INT, attr(title, kind, first), values.astype(np.int64)), literal(b"}")]

    def word(title: str, column: str) -> list[Part]:
        codes = trace.array("op", column)
        pool = words([string(each) for each in trace.words("op", column)])
        none = codes[np.maximum(op, 0)] < 0 if len(codes) else np.ones(len(op), bool)
        return [
            literal(attr(title, "string")),
            Part(Op.WORD, b"", codes, op, pool),
            *when((op < 0) | none, [literal(b'""')]),
            literal(b"}"),
        ]

    category = words([string(each) for each in trace.words("slice", "category")])
    device = nodes.is_device
    return [
        Part(Op.INT, b',\n{"id": ', ids),
        Part(Op.WORD, b', "name": ', name[nodes.row], words=words([string(each) for each in names])),
        Part(Op.INT, b', "ctrl_deps": ', nodes.parent),
        Part(Op.WORD, b', "inputs": ', inputs, op, input_words),
        *when(without, [literal(b', "inputs": ' + NOTHING)]),
        literal(b', "outputs": ' + NOTHING + b', "attrs": ['),
        *number("rf_id", function, first=True),
        *number("fw_parent", nodes.forward_parent),
        *number("seq_id", nodes.sequence, "int64"),
        *number("scope", nodes.scope),
        *number("tid", nodes.thread),
        *number("fw_tid", nodes.forward_thread),
        literal(attr("op_schema", "string") + b'""}'),
        *word("kernel_backend", "kernel_backend"),
        *word("kernel_file", "kernel_file"),
        literal(attr("tensor_range", "string") + b'""}'),
        Part(Op.WORD, b"", collective, told, collective_words),
        literal(b"]"),
        Part(Op.TIME, b', "ts": ', trace.array("slice", "ts"), index),
        Part(Op.TIME, b', "inclusive_dur": ', trace.array("slice", "dur"), index),
        *when(~is_thread, [Part(Op.TIME, b', "exclusive_dur": ', nodes.exclusive)]),
        *when(device, [
            Part(Op.WORD, b', "ph": "X", "cat": ', trace.array("slice", "category"), index, category),
            Part(Op.INT, b', "stream": ', stream, index),
            Part(Op.WORD, b', "pg_name": ', group, told, groups),
        ]),
        literal(b"}"),
    ]  # fmt: skip


def _rows_by_slice(trace: Trace, table: str) -> NDArray[np.int32]:
    """The row of a table that describes each slice, -1 for none; the last stands for no slice."""
    found = np.full(trace.num_rows("slice") + 1, -1, np.int32)
    found[trace.array(table, "slice_id")] = np.arange(trace.num_rows(table))
    return found


def _streams(trace: Trace) -> NDArray[np.int64]:
    """The stream of each slice."""
    found = np.full(trace.num_rows("slice"), NULL_INT64, np.int64)
    for table in ("kernel", "memcpy"):
        found[trace.array(table, "slice_id")] = trace.array(table, "stream")
    return found


def _combined(trace: Trace, table: str, columns: tuple[str, ...]) -> tuple[NDArray[np.int32], list[tuple[Any, ...]]]:
    """The number of each row's combination of some columns, and the distinct combinations; null is None."""
    joined = np.zeros(trace.num_rows(table), np.int64)
    parts = []
    for column in columns:
        values = trace.array(table, column).astype(np.int64)
        codes, found = numbered(values)
        joined = numbered(joined * max(1, len(found)) + codes)[0].astype(np.int64)
        parts.append(values)
    num = int(joined.max(initial=-1)) + 1
    first = np.full(num, -1)
    first[joined[::-1]] = np.arange(len(joined))[::-1]
    cells: list[list[Any]] = []
    for column, values in zip(columns, parts, strict=True):
        taken = values[first].tolist()
        if BY_NAME[table].column(column).dtype == "text":
            pool = trace.words(table, column)
            cells.append([None if code < 0 else pool[code] for code in taken])
        else:
            cells.append([None if value == NULL_INT64 else value for value in taken])
    return joined.astype(np.int32), list(zip(*cells, strict=True))


def _inputs(trace: Trace) -> tuple[NDArray[np.int32], Words]:
    """The inputs of each row of ``op``, -1 where none were recorded."""
    columns = ("input_dims", "input_types", "input_strides", "concrete_inputs")
    codes, found = _combined(trace, "op", columns)
    empty = np.array([not any(cell) for cell in found], bool)
    codes = np.where(empty[codes], -1, codes).astype(np.int32) if len(codes) else codes
    return codes, words([inputs_json(*cell) for cell in found])


def _collectives(trace: Trace) -> tuple[NDArray[np.int32], Words]:
    """Attributes of each row of ``collective``."""
    codes, found = _combined(trace, "collective", (*(column for _, column, _ in COLLECTIVE), "group_ranks"))
    texts = []
    for *cells, ranks in found:
        attrs = [
            {"name": title, "type": kind, "value": value}
            for (title, _, kind), value in zip(COLLECTIVE, cells, strict=True)
            if value is not None
        ]
        attrs += [{"name": title, "type": "uint64", "value": value} for title, value in _ranks(ranks)]
        texts.append(b"".join(b", " + msgspec.json.encode(each) for each in attrs))
    return codes, words(texts)


def _ranks(text: str | None) -> list[tuple[str, int]]:
    """The first rank of a group and the distance from each to the next; nothing where there is no such distance."""
    try:
        ranks = msgspec.json.decode(text) if text else []
    except (ValueError, RecursionError):
        return []
    if not isinstance(ranks, list) or not ranks or not all(type(rank) is int and 0 <= rank < 2**31 for rank in ranks):
        return []
    steps = {after - before for before, after in pairwise(ranks)} or {1}
    if len(steps) > 1 or min(steps) < 1:
        return []
    return [("global_rank_start", ranks[0]), ("global_rank_stride", steps.pop())]
