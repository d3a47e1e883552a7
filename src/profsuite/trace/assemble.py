"""From a reader's raw columns to a ``Trace``: nulls, nesting, relations, tables, health."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from profsuite.trace import rocprof, xla
from profsuite.trace.classes import DEVICE_WORK, WORK_KINDS, Role, category_roles, kernel_kinds, role_mask
from profsuite.trace.columns import Text, build_table, gather, integers, strings
from profsuite.trace.header import read_header
from profsuite.trace.health import inspect
from profsuite.trace.marks import find_marks
from profsuite.trace.model import Trace
from profsuite.trace.nesting import nest
from profsuite.trace.readers.fields import NULL_INT64
from profsuite.trace.relations import (
    Slices,
    assign_steps,
    find_forward_ops,
    find_launches,
    find_ops,
    find_steps,
    truncated_steps,
)
from profsuite.trace.select import noted_time
from profsuite.trace.spans import close_spans
from profsuite.trace.tracks import describe_tracks, known_device, known_stream, metadata_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.readers.raw import RawTrace, Remark
    from profsuite.trace.tracks import Tracks

    Columns = dict[str, NDArray[Any]]


def assemble(
    raw: RawTrace, source: str, reader: str, *, rank: int | None = None, selection: str | None = None
) -> Trace:
    """The ``Trace`` of a raw trace.

    ``source`` is the path or address that the file was read from (its name may tell the rank),
    ``reader`` the name of the reader, ``rank`` overrides what the file says, ``selection`` says
    what was left out, if anything.  Raw columns are shared with the tables where possible and must
    not be changed afterwards.
    """
    info = read_header(raw, source, reader, rank, selection)
    if (marks := find_marks(raw.header, raw.tracks)) is not None:
        raw = marks.restore(raw)
        info = replace(info, num_events=raw.num_events, selection=info.selection or marks.selection)
    names = metadata_names(raw)
    described = rocprof.describe(raw, names["process_name"])
    described = xla.describe(described, names["process_name"], names["thread_name"])
    info = replace(info, num_events=info.num_events + described.num_events - raw.num_events)
    raw = described
    group = raw.groups["slice"]
    dur, unclosed, remarks = close_spans(group, raw.groups["end"])
    roles = category_roles(raw.pools["category"].to_pylist())
    roles = np.append(roles, np.int8(Role.OTHER))[group["category"]]  # code -1, none: the last
    tracks = describe_tracks(raw, roles, info.rank)
    # A wait is no container either: kernels run while it lasts, not inside it.
    leaf = role_mask(roles, (*DEVICE_WORK, Role.SYNC))
    parent, depth, self_dur = nest(group["track"], group["ts"], dur, leaf)
    slices = Slices(
        group["ts"],
        dur,
        group["track"],
        group["name"],
        roles,
        _known(group["correlation"]),
        _known(group["external"], 1),
        parent,
        raw.pools["name"],
    )
    work, launch = find_launches(slices, raw.groups["flow"], raw.pools["category"])
    op = find_ops(slices, work, launch)
    marked = raw.groups["xla"]["step"] != NULL_INT64
    steps = find_steps(slices, raw.groups["xla"]["row"][marked], raw.groups["xla"]["step"][marked])
    step = assign_steps(slices, steps, work, launch)
    broken_off = any(remark.kind == "truncated" for remark in raw.remarks)
    truncated = truncated_steps(slices, steps, step, unclosed, broken_off)
    if (chosen := noted_time(raw.header)) is not None:
        truncated |= (steps.ts < chosen[0]) | (steps.ts + steps.dur > chosen[1])

    tables = {
        "slice": build_table(
            "slice",
            {
                "ts": slices.ts,
                "dur": slices.dur,
                "track_id": slices.track,
                "name": Text(slices.name, raw.pools["name"]),
                "category": Text(group["category"], raw.pools["category"]),
                "correlation_id": slices.correlation,
                "external_id": slices.external,
                "byte_offset": group["offset"],
                "parent_id": parent,
                "depth": depth,
                "self_dur": self_dur,
                "step_id": step,
            },
        ),
        "track": tracks.table,
        "op": _op_table(raw, slices),
        **_work_tables(raw, slices, tracks, work, launch, op),
        "collective": _collective_table(raw),
        "sync": _sync_table(raw),
        "python_call": _python_table(raw),
        "xla_op": _xla_table(raw),
        **_event_tables(raw),
        "memory_event": _memory_table(raw),
        "compile_event": _compile_table(raw),
        "tensor": _tensor_table(raw),
        "step": build_table(
            "step",
            {
                "slice_id": steps.row,
                "number": steps.number,
                "ts": steps.ts,
                "dur": steps.dur,
                "truncated": truncated.astype(np.int8),
            },
        ),
        "metadata": _metadata_table(raw),
    }
    trace = Trace(tables, info)
    tables["health"] = _health_table([*raw.remarks, *remarks, *inspect(trace)])
    return trace


def _known(values: NDArray[np.int64], lowest: int = 0) -> NDArray[np.int64]:
    """``values`` with null below ``lowest``: recorders write such numbers for "none"."""
    unknown = (values < lowest) & (values != NULL_INT64)
    return np.where(unknown, NULL_INT64, values) if unknown.any() else values


def _op_table(raw: RawTrace, slices: Slices) -> pa.Table:
    group = raw.groups["op"]
    sequence = _known(group["sequence"])
    thread = _known(group["forward_thread"], 1)  # RecordFunction counts threads from 1
    return build_table(
        "op",
        {
            "slice_id": group["row"],
            "sequence_number": sequence,
            "forward_thread_id": thread,
            "record_function_id": _known(group["record_function"], 1),
            "event_index": _known(group["event_index"]),
            "input_dims": Text(group["dims"], raw.pools["shape"]),
            "input_types": Text(group["types"], raw.pools["types"]),
            "input_strides": Text(group["strides"], raw.pools["shape"]),
            "concrete_inputs": Text(group["concrete"], raw.pools["concrete"]),
            "input_layouts": Text(group["layouts"], raw.pools["types"]),
            "call_stack": Text(group["stack"], raw.pools["stack"]),
            "module_hierarchy": Text(group["module"], raw.pools["module"]),
            "kernel_backend": Text(group["kernel_backend"], raw.pools["misc"]),
            "kernel_file": Text(group["kernel_file"], raw.pools["misc"]),
            "forward_op_id": find_forward_ops(slices, group["row"], sequence, thread),
        },
    )


def _work_tables(
    raw: RawTrace,
    slices: Slices,
    tracks: Tracks,
    work: NDArray[np.int32],
    launch: NDArray[np.int32],
    op: NDArray[np.int32],
) -> dict[str, pa.Table]:
    """The kernel and memcpy tables."""
    gpu = raw.groups["gpu"]
    at = np.full(len(slices.ts), -1, np.int32)
    at[gpu["row"]] = np.arange(len(gpu["row"]), dtype=np.int32)
    is_kernel = slices.role[work] == Role.KERNEL

    def place(rows: NDArray[np.int32], args: NDArray[np.int32]) -> dict[str, NDArray[Any] | Text]:
        device = known_device(gather(gpu["device"], args))
        stream = known_stream(gather(gpu["stream"], args))
        track = slices.track[rows]
        return {
            "slice_id": rows,
            "device": np.where(device == NULL_INT64, tracks.device[track], device),
            "stream": np.where(stream == NULL_INT64, tracks.stream[track], stream),
            "context": gather(gpu["context"], args),
        }

    rows = work[is_kernel]
    args = at[rows]
    kernel = build_table(
        "kernel",
        {
            **place(rows, args),
            "kind": _kinds(raw, slices, rows),
            **{f"{g}_{axis}": gather(gpu[f"{g}_{axis}"], args) for g in ("grid", "block") for axis in "xyz"},
            "registers_per_thread": gather(gpu["registers"], args),
            "shared_memory_bytes": gather(gpu["shared_memory"], args),
            "blocks_per_sm": gather(gpu["blocks_per_sm"], args),
            "warps_per_sm": gather(gpu["warps_per_sm"], args),
            "occupancy_pct": gather(gpu["occupancy"], args),
            # CUPTI writes 0 for an unknown time stamp and for a kernel outside of graphs.
            "queued": _known(gather(gpu["queued"], args), 1),
            "graph_id": _known(gather(gpu["graph"], args), 1),
            "graph_node_id": _known(gather(gpu["graph_node"], args), 1),
            "launch_id": launch[is_kernel],
            "op_id": op[is_kernel],
        },
    )
    rows = work[~is_kernel]
    args = at[rows]
    memcpy = build_table(
        "memcpy",
        {
            **place(rows, args),
            "bytes": gather(gpu["bytes"], args),
            "bandwidth_gb_per_s": gather(gpu["bandwidth"], args),
            "launch_id": launch[~is_kernel],
            "op_id": op[~is_kernel],
        },
    )
    return {"kernel": kernel, "memcpy": memcpy}


def _kinds(raw: RawTrace, slices: Slices, rows: NDArray[np.int32]) -> Text:
    """Class of each kernel: communication if it carries a collective's name, else by its own name."""
    names = slices.name[rows]
    used = np.zeros(len(slices.names) + 1, bool)  # the last: no name
    used[names] = True
    words = np.flatnonzero(used[:-1])
    kinds = np.zeros(len(used), np.int8)
    kinds[words] = kernel_kinds(slices.names.take(integers(words)))
    codes = kinds[names].astype(np.int32)
    group = raw.groups["collective"]
    carriers = group["row"][group["collective"] >= 0]
    if len(carriers):
        codes[np.isin(rows, carriers)] = WORK_KINDS.index("comm")
    return Text(codes, strings(WORK_KINDS))


def _collective_table(raw: RawTrace) -> pa.Table:
    group, pool = raw.groups["collective"], raw.pools["collective"]
    return build_table(
        "collective",
        {
            "slice_id": group["row"],
            "collective_name": Text(group["collective"], pool),
            "dtype": Text(group["dtype"], pool),
            "in_nelems": group["in_nelems"],
            "out_nelems": group["out_nelems"],
            "in_split": Text(group["in_split"], pool),
            "out_split": Text(group["out_split"], pool),
            "group_size": _known(group["group_size"], 1),
            "group_name": Text(group["group_name"], pool),
            "group_description": Text(group["group_description"], pool),
            "group_ranks": Text(group["group_ranks"], pool),
            "rank": _known(group["rank"]),
            "source_rank": _known(group["source_rank"]),
            "destination_rank": _known(group["destination_rank"]),
            "sequence": _known(group["sequence"]),
            "is_async": group["is_async"],
            "comms_id": Text(group["comms_id"], pool),
        },
    )


def _sync_table(raw: RawTrace) -> pa.Table:
    group = raw.groups["sync"]
    return build_table(
        "sync",
        {
            "slice_id": group["row"],
            "sync_kind": Text(group["sync_kind"], raw.pools["misc"]),
            "wait_on_stream": known_stream(group["wait_stream"]),
            "event_record_correlation_id": _known(group["record_correlation"], 1),
            "event_id": _known(group["event"]),
        },
    )


def _python_table(raw: RawTrace) -> pa.Table:
    group = raw.groups["python"]
    caller = group["parent"]
    if bool((caller == 0).any()) and not bool((group["id"] == 0).any()):
        caller = _known(caller, 1)  # a root, where the recorder writes 0 for "no caller"
    return build_table(
        "python_call",
        {
            "slice_id": group["row"],
            "python_id": group["id"],
            "python_parent_id": caller,
            "python_module_id": group["module"],
        },
    )


def _xla_table(raw: RawTrace) -> pa.Table:
    group, pool = raw.groups["xla"], raw.pools["misc"]
    return build_table(
        "xla_op",
        {
            "slice_id": group["row"],
            "hlo_op": Text(group["hlo_op"], pool),
            "hlo_opcode": Text(group["opcode"], pool),
            "hlo_module": Text(group["module"], pool),
            "hlo_category": Text(group["category"], pool),
            "framework_op": Text(group["framework_op"], pool),
            "kernel_details": Text(group["kernel_details"], pool),
            "transfer_details": Text(group["transfer_details"], pool),
            "step_number": group["step"],
            "program_id": group["program"],
            "run_id": group["run"],
            "device": known_device(group["device"]),
            "flops": group["flops"],
            "bytes_accessed": group["bytes"],
        },
    )


def _event_tables(raw: RawTrace) -> dict[str, pa.Table]:
    """The flow, counter and instant tables."""
    names, categories = raw.pools["name"], raw.pools["category"]
    flow, counter, instant = raw.groups["flow"], raw.groups["counter"], raw.groups["instant"]
    id_text = flow["id_text"]
    if bool(((flow["id"] != NULL_INT64) & (id_text >= 0)).any()):
        id_text = np.where(flow["id"] != NULL_INT64, np.int32(-1), id_text)
    letters = np.zeros(128, np.int32)
    letters[ord("t")], letters[ord("f")] = 1, 2

    def common(group: Columns) -> dict[str, NDArray[Any] | Text]:
        return {
            "ts": group["ts"],
            "track_id": group["track"],
            "name": Text(group["name"], names),
            "byte_offset": group["offset"],
        }

    return {
        "flow": build_table(
            "flow",
            {
                **common(flow),
                "phase": Text(letters[flow["phase"]], strings(["s", "t", "f"])),
                "category": Text(flow["category"], categories),
                "flow_id": flow["id"],
                "flow_id_text": Text(id_text, raw.pools["flow_id"]),
            },
        ),
        "counter": build_table(
            "counter",
            {**common(counter), "series": Text(counter["series"], raw.pools["series"]), "value": counter["value"]},
        ),
        "instant": build_table("instant", {**common(instant), "category": Text(instant["category"], categories)}),
    }


def _memory_table(raw: RawTrace) -> pa.Table:
    group = raw.groups["memory"]
    return build_table(
        "memory_event",
        {
            "ts": group["ts"],
            "track_id": group["track"],
            "device_type": _known(group["device_type"]),
            "device": known_device(group["device"]),
            "address": group["address"],
            "bytes": group["bytes"],
            "total_allocated_bytes": group["allocated"],
            "total_reserved_bytes": group["reserved"],
            "event_index": _known(group["event_index"]),
            "byte_offset": group["offset"],
        },
    )


def _compile_table(raw: RawTrace) -> pa.Table:
    group, pool = raw.groups["compile"], raw.pools["misc"]
    return build_table(
        "compile_event",
        {
            "ts": group["ts"],
            "dur": group["dur"],
            "kind": Text(group["kind"], pool),
            "frame_id": _known(group["frame"]),
            "frame_compile_id": _known(group["frame_compile"]),
            "name": Text(group["name"], pool),
            "reason": Text(group["reason"], pool),
            "file": Text(group["file"], pool),
            "line": _known(group["line"], 1),
        },
    )


def _tensor_table(raw: RawTrace) -> pa.Table:
    group, pool = raw.groups["tensor"], raw.pools["misc"]
    return build_table(
        "tensor",
        {
            "ts": group["ts"],
            "device_type": group["device_type"],
            "device": known_device(group["device"]),
            "address": group["address"],
            "bytes": group["bytes"],
            "role": Text(group["role"], pool),
            "name": Text(group["name"], pool),
            "module": Text(group["module"], pool),
        },
    )


def _metadata_table(raw: RawTrace) -> pa.Table:
    """The header's keys (scope ``file``) and then the metadata events."""
    group = raw.groups["meta"]
    num = len(raw.header)
    scopes = pa.concat_arrays([raw.pools["meta_name"], strings(["file"])])
    keys = pa.concat_arrays([raw.pools["meta_key"], strings([k for k, _ in raw.header])])
    values = pa.concat_arrays([raw.pools["meta_value"], strings([v for _, v in raw.header])])
    new = np.arange(num, dtype=np.int32)
    return build_table(
        "metadata",
        {
            "scope": Text(np.concatenate((np.full(num, len(scopes) - 1, np.int32), group["name"])), scopes),
            "track_id": np.concatenate((np.full(num, -1, np.int32), group["track"])),
            "key": Text(np.concatenate((new + np.int32(len(keys) - num), group["key"])), keys),
            "value": Text(np.concatenate((new + np.int32(len(values) - num), group["value"])), values),
        },
    )


def _health_table(remarks: list[Remark]) -> pa.Table:
    kinds = strings([r.kind for r in remarks])
    messages = strings([r.message for r in remarks])
    offsets = [NULL_INT64 if r.byte_offset is None else r.byte_offset for r in remarks]
    return build_table(
        "health",
        {
            "kind": Text(np.arange(len(remarks), dtype=np.int32), kinds),
            "count": np.array([r.count for r in remarks], np.int64),
            "byte_offset": np.array(offsets, np.int64),
            "message": Text(np.arange(len(remarks), dtype=np.int32), messages),
        },
    )
