"""What the readers take from an event: the single list that both readers follow.

A *group* is a set of raw columns that grows by a row when an event has at least one of the group's
trigger fields.  The C scanner receives ``GROUPS`` and ``ARGS`` when it is built; the msgspec
reader walks them.  The rules of coercion are in ``docs/reader.md``.
"""

from __future__ import annotations

from typing import Final, Literal

Kind = Literal["time", "int", "float", "bool", "row", "track", "phase", "grid", "text", "json"]
"""How a value is coerced and stored.

time   microseconds as written -> int64 ns, exactly        (null: NULL_INT64)
int    integer or integer in a string -> int64             (null: NULL_INT64)
float  number or number in a string -> float64             (null: NaN)
bool   true / false -> int8                                (null: -1)
row    slice row number, int32
track  track number, int32
phase  the event's ph, int8 (its ASCII code)
grid   up to three ints of an array -> three int64 columns  (null: NULL_INT64)
text   string -> its content, anything else -> as written; int32 code in the pool (null: -1)
json   as text; named apart because the value is usually not a string
"""

NULL_INT64: Final = -(2**63)
NULL_CODE: Final = -1

POOLS: Final[tuple[str, ...]] = (
    "name", "category", "shape", "types", "concrete", "stack", "module", "collective",
    "misc", "flow_id", "series", "meta_name", "meta_key", "meta_value",
)  # fmt: skip
"""String pools; codes are numbered by first appearance in the file."""

GROUPS: Final[dict[str, tuple[tuple[str, Kind, str], ...]]] = {
    # Filled from the events' own fields.
    "slice": (
        ("ts", "time", ""), ("dur", "time", ""), ("track", "track", ""),
        ("name", "text", "name"), ("category", "text", "category"),
        ("correlation", "int", ""), ("external", "int", ""), ("offset", "int", ""),
    ),
    "end": (("ts", "time", ""), ("track", "track", ""), ("offset", "int", "")),
    "flow": (
        ("ts", "time", ""), ("track", "track", ""), ("phase", "phase", ""),
        ("name", "text", "name"), ("category", "text", "category"),
        ("id", "int", ""), ("id_text", "text", "flow_id"), ("offset", "int", ""),
    ),
    "counter": (
        ("ts", "time", ""), ("track", "track", ""), ("name", "text", "name"),
        ("series", "text", "series"), ("value", "float", ""), ("offset", "int", ""),
    ),
    "instant": (
        ("ts", "time", ""), ("track", "track", ""), ("name", "text", "name"),
        ("category", "text", "category"), ("offset", "int", ""),
    ),
    "meta": (
        ("name", "text", "meta_name"), ("track", "track", ""),
        ("key", "text", "meta_key"), ("value", "json", "meta_value"),
    ),
    # Filled from args; "row" is the slice, except that memory rows carry ts, track and offset.
    "memory": (
        ("ts", "time", ""), ("track", "track", ""), ("offset", "int", ""),
        ("device_type", "int", ""), ("device", "int", ""), ("address", "int", ""), ("bytes", "int", ""),
        ("allocated", "int", ""), ("reserved", "int", ""), ("event_index", "int", ""),
    ),
    "op": (
        ("row", "row", ""), ("sequence", "int", ""), ("forward_thread", "int", ""), ("record_function", "int", ""),
        ("event_index", "int", ""), ("dims", "json", "shape"), ("types", "json", "types"),
        ("strides", "json", "shape"), ("concrete", "json", "concrete"), ("stack", "text", "stack"),
        ("module", "text", "module"), ("kernel_backend", "text", "misc"), ("kernel_file", "text", "misc"),
        ("layouts", "json", "types"),
    ),
    "gpu": (
        ("row", "row", ""), ("device", "int", ""), ("stream", "int", ""), ("context", "int", ""),
        ("grid", "grid", ""), ("block", "grid", ""), ("registers", "int", ""), ("shared_memory", "int", ""),
        ("blocks_per_sm", "float", ""), ("warps_per_sm", "float", ""), ("occupancy", "float", ""),
        ("queued", "int", ""), ("graph", "int", ""), ("graph_node", "int", ""),
        ("bytes", "int", ""), ("bandwidth", "float", ""),
    ),
    "collective": (
        ("row", "row", ""), ("collective", "text", "collective"), ("dtype", "text", "collective"),
        ("in_nelems", "int", ""), ("out_nelems", "int", ""), ("in_split", "json", "collective"),
        ("out_split", "json", "collective"), ("group_size", "int", ""), ("group_name", "text", "collective"),
        ("group_description", "text", "collective"), ("group_ranks", "json", "collective"), ("rank", "int", ""),
        ("source_rank", "int", ""), ("destination_rank", "int", ""), ("sequence", "int", ""),
        ("is_async", "bool", ""), ("comms_id", "text", "collective"),
    ),
    "sync": (
        ("row", "row", ""), ("sync_kind", "text", "misc"), ("wait_stream", "int", ""),
        ("record_correlation", "int", ""), ("event", "int", ""),
    ),
    "python": (("row", "row", ""), ("id", "int", ""), ("parent", "int", ""), ("module", "int", "")),
    "xla": (
        ("row", "row", ""), ("hlo_op", "text", "misc"), ("opcode", "text", "misc"), ("module", "text", "misc"),
        ("category", "text", "misc"), ("framework_op", "text", "misc"), ("kernel_details", "text", "misc"),
        ("transfer_details", "text", "misc"), ("step", "int", ""), ("program", "int", ""), ("run", "int", ""),
        ("device", "int", ""), ("flops", "int", ""), ("bytes", "int", ""),
    ),
    # Of rocprof's JSON: exact times, and where work ran.  No table has them: they correct those that there are.
    "rocprof": (
        ("row", "row", ""), ("begin", "int", ""), ("end", "int", ""), ("device", "int", ""), ("stream", "int", ""),
    ),
    # The collector's alone: no key of a JSON trace fills them.
    "compile": (
        ("ts", "time", ""), ("dur", "time", ""), ("kind", "text", "misc"), ("frame", "int", ""),
        ("frame_compile", "int", ""), ("name", "text", "misc"), ("reason", "text", "misc"),
        ("file", "text", "misc"), ("line", "int", ""),
    ),
    "tensor": (
        ("ts", "time", ""), ("device_type", "int", ""), ("device", "int", ""), ("address", "int", ""),
        ("bytes", "int", ""), ("role", "text", "misc"), ("name", "text", "misc"), ("module", "text", "misc"),
    ),
}  # fmt: skip

ARGS: Final[tuple[tuple[str, str, str, bool], ...]] = (
    # key as written, group, field, whether its presence alone makes a row
    ("correlation", "slice", "correlation", False),
    ("External id", "slice", "external", False),
    ("external id", "slice", "external", False),
    ("Ev Idx", "op", "event_index", False),
    ("Profiler Event Index", "op", "event_index", False),
    ("Sequence number", "op", "sequence", True),
    ("Fwd thread id", "op", "forward_thread", True),
    ("Record function id", "op", "record_function", True),
    ("Input Dims", "op", "dims", True),
    ("Input dims", "op", "dims", True),
    ("Input type", "op", "types", True),
    ("Input Strides", "op", "strides", True),
    ("Concrete Inputs", "op", "concrete", True),
    ("Input Layouts", "op", "layouts", True),  # the Chrome exporter's; Kineto records none
    ("Call stack", "op", "stack", True),
    ("Module Hierarchy", "op", "module", True),
    ("kernel_backend", "op", "kernel_backend", True),
    ("kernel_file", "op", "kernel_file", True),
    ("device", "gpu", "device", True),
    ("stream", "gpu", "stream", True),
    ("context", "gpu", "context", True),
    ("grid", "gpu", "grid", True),
    ("block", "gpu", "block", True),
    ("registers per thread", "gpu", "registers", True),
    ("shared memory", "gpu", "shared_memory", True),
    ("blocks per SM", "gpu", "blocks_per_sm", True),
    ("warps per SM", "gpu", "warps_per_sm", True),
    ("est. achieved occupancy %", "gpu", "occupancy", True),
    ("queued", "gpu", "queued", True),
    ("graph id", "gpu", "graph", True),
    ("graph node id", "gpu", "graph_node", True),
    ("bytes", "gpu", "bytes", True),
    ("memory bandwidth (GB/s)", "gpu", "bandwidth", True),
    ("Collective name", "collective", "collective", True),
    ("dtype", "collective", "dtype", False),
    ("In msg nelems", "collective", "in_nelems", True),
    ("Out msg nelems", "collective", "out_nelems", True),
    ("In split size", "collective", "in_split", True),
    ("Out split size", "collective", "out_split", True),
    ("Group size", "collective", "group_size", True),
    ("Process Group Name", "collective", "group_name", True),
    ("Process Group Description", "collective", "group_description", True),
    ("Process Group Ranks", "collective", "group_ranks", True),
    ("Rank", "collective", "rank", False),
    ("Src Rank", "collective", "source_rank", True),
    ("Dst Rank", "collective", "destination_rank", True),
    ("Seq", "collective", "sequence", False),
    ("Is asynchronized op", "collective", "is_async", True),
    ("Comms Id", "collective", "comms_id", True),
    ("cuda_sync_kind", "sync", "sync_kind", True),
    ("wait_on_stream", "sync", "wait_stream", True),
    ("wait_on_cuda_event_record_corr_id", "sync", "record_correlation", True),
    ("wait_on_cuda_event_id", "sync", "event", True),
    # As XLA's converter writes the stats of its planes; hlo_opcode is profsuite's own.
    ("correlation_id", "slice", "correlation", False),
    ("hlo_op", "xla", "hlo_op", True),
    ("hlo_opcode", "xla", "opcode", True),
    ("hlo_module", "xla", "module", True),
    ("hlo_category", "xla", "category", True),
    ("tf_op", "xla", "framework_op", True),
    ("kernel_details", "xla", "kernel_details", True),
    ("memcpy_details", "xla", "transfer_details", True),
    ("memset_details", "xla", "transfer_details", True),
    ("step_num", "xla", "step", True),
    ("program_id", "xla", "program", False),
    ("run_id", "xla", "run", False),
    ("device_ordinal", "xla", "device", False),
    ("flops", "xla", "flops", False),
    ("bytes_accessed", "xla", "bytes", False),
    ("BeginNs", "rocprof", "begin", True),
    ("EndNs", "rocprof", "end", True),
    ("dev-id", "rocprof", "device", False),
    ("stream-id", "rocprof", "stream", False),
    ("Python id", "python", "id", True),
    ("Python parent id", "python", "parent", True),
    ("Python module id", "python", "module", True),
    ("Device Type", "memory", "device_type", True),
    ("Device Id", "memory", "device", True),
    ("Addr", "memory", "address", True),
    ("Bytes", "memory", "bytes", True),
    ("Total Allocated", "memory", "allocated", True),
    ("Total Reserved", "memory", "reserved", True),
)
"""Keys of ``args`` that become columns.  Those of ``op.event_index`` also fill ``memory.event_index``."""
