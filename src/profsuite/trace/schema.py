"""Every table of a trace, declared once: name, columns, types, units, meaning.

The model checks tables against this file, the run folder stores them by it, and the reference
page ``docs/reference/tables.md`` is generated from it.

Conventions
    * Row number is identity: ``slice_id`` in another table is a row number of ``slice``.
    * Time is integer nanoseconds, as the file counts it (add ``Trace.base_time_ns`` for the epoch).
    * ``text`` columns are dictionary encoded (int32 code, UTF-8 value).
    * Absent is null.  No column uses 0, -1 or "" for "unknown".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 4
"""Rises whenever a column changes its name, type or meaning; caches and run folders carry it."""

ADDED: dict[int, dict[str, tuple[str, ...]]] = {
    3: {"op": ("input_layouts",), "tensor": ()},
    4: {"xla_op": ()},
}
"""What a version added to the one before, as columns of tables (none: the whole table), where it did nothing else.

A run folder of the version before is read as if these had been recorded as null, or with no row.
"""

Dtype = Literal["int64", "int32", "float64", "bool", "text"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: ``dtype`` as stored, ``unit`` ("" where there is none), ``doc`` one sentence."""

    name: str
    dtype: Dtype
    unit: str
    doc: str
    nullable: bool = False

    def arrow_type(self) -> pa.DataType:
        """The pyarrow type of this column."""
        import pyarrow as pa

        types: dict[str, pa.DataType] = {
            "text": pa.dictionary(pa.int32(), pa.string()),
            "bool": pa.bool_(),
            "int64": pa.int64(),
            "int32": pa.int32(),
            "float64": pa.float64(),
        }
        return types[self.dtype]


@dataclass(frozen=True, slots=True)
class Table:
    """One table: its columns in order and what a row is."""

    name: str
    row: str
    columns: tuple[Column, ...]

    def arrow_schema(self) -> pa.Schema:
        """The pyarrow schema of this table."""
        import pyarrow as pa

        return pa.schema([pa.field(c.name, c.arrow_type(), c.nullable) for c in self.columns])

    def column(self, name: str) -> Column:
        """The column called ``name``; ``KeyError`` names the table."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"table {self.name!r} has no column {name!r}")


def _null(name: str, dtype: Dtype, unit: str, doc: str) -> Column:
    return Column(name, dtype, unit, doc, nullable=True)


_SLICE_ID = Column("slice_id", "int32", "row of slice", "The slice that this row describes.")
_TS = Column("ts", "int64", "ns", "When it happened, on the file's clock.")
_TRACK = Column("track_id", "int32", "row of track", "The thread or stream it was recorded on.")
_OFFSET = _null(
    "byte_offset", "int64", "bytes", "Where its event starts in the uncompressed file; null where there was no file."
)
_LAUNCH = (
    _null("launch_id", "int32", "row of slice", "The runtime or driver call that launched it (same correlation id)."),
    _null("op_id", "int32", "row of slice", "The innermost op around the launch; else the op of the same external id."),
)
_PLACE = (
    _null("device", "int32", "", "Device ordinal, from the event's args, else from its track."),
    _null("stream", "int64", "", "Stream, from the event's args, else from its track."),
    _null("context", "int64", "", "Device context."),
)

TABLES: tuple[Table, ...] = (
    Table(
        "slice",
        "One complete event: something that ran from ts to ts + dur on one track, in file order.",
        (
            Column("ts", "int64", "ns", "Start, on the file's clock."),
            Column("dur", "int64", "ns", "Duration, never negative."),
            _TRACK,
            Column("name", "text", "", "Name, as recorded."),
            Column("category", "text", "", "Kineto's category string, verbatim; empty where the event has none."),
            _null("correlation_id", "int64", "", "Joins a launch call to its device work."),
            _null("external_id", "int64", "", "Joins device work and runtime calls to their op."),
            _OFFSET,
            _null("parent_id", "int32", "row of slice", "The innermost slice of the same track around this one."),
            Column("depth", "int32", "", "Number of slices around this one on its track."),
            Column("self_dur", "int64", "ns", "Duration less what its children cover."),
            _null(
                "step_id",
                "int32",
                "row of step",
                "Its step: by start time on the host, by its launch on a device (by time where it has none).",
            ),
        ),
    ),
    Table(
        "track",
        "One thread of a process or one stream of a device: a distinct (pid, tid).",
        (
            _null("rank", "int32", "", "Rank of the process in the job."),
            Column("pid", "text", "", "Process id as written (some writers use names)."),
            Column("tid", "text", "", "Thread id as written."),
            Column("kind", "text", "", "host, device, or other (spans, counters and the like)."),
            _null("device", "int32", "", "Device ordinal of a device track."),
            _null("stream", "int64", "", "Stream of a device track."),
            _null("process_name", "text", "", "From the process_name metadata event."),
            _null("process_label", "text", "", "From the process_labels metadata event."),
            _null("thread_name", "text", "", "From the thread_name metadata event."),
            _null("sort_index", "int64", "", "From the thread_sort_index metadata event."),
        ),
    ),
    Table(
        "op",
        "What the recorder said of an operator beyond its slice; only slices that carry such args.",
        (
            _SLICE_ID,
            _null("sequence_number", "int64", "", "Autograd sequence number; joins forward and backward."),
            _null("forward_thread_id", "int64", "", "On backward ops: the thread number of the forward op."),
            _null("record_function_id", "int64", "", "RecordFunction handle."),
            _null("event_index", "int64", "", "Recorder's own index (Ev Idx, Profiler Event Index)."),
            _null("input_dims", "text", "JSON", "Shapes of the inputs, as written."),
            _null("input_types", "text", "JSON", "Dtypes of the inputs, as written."),
            _null("input_strides", "text", "JSON", "Strides of the inputs, as written."),
            _null("concrete_inputs", "text", "JSON", "Values of the scalar inputs, as written."),
            _null(
                "input_layouts",
                "text",
                "JSON",
                'Layouts of the inputs, such as ["strided", "sparse_csr"] (null where one is no tensor, a list for '
                "a list); null where all are strided or nothing was recorded.",
            ),
            _null("call_stack", "text", "", "Python call stack, frames separated by ';'."),
            _null("module_hierarchy", "text", "", "Module path, as written."),
            _null("kernel_backend", "text", "", "Compiler backend of a generated kernel's op (triton, cpp)."),
            _null("kernel_file", "text", "", "Generated source file of a compiled kernel's op."),
            _null("forward_op_id", "int32", "row of slice", "On backward ops: the forward op of that sequence number."),
        ),
    ),
    Table(
        "kernel",
        "One kernel on a device: a slice of category kernel (or the older Kernel).",
        (
            _SLICE_ID,
            Column("kind", "text", "", "compute, comm or memory: the class of device work, see docs/analyses.md."),
            *_PLACE,
            _null("grid_x", "int64", "blocks", "Grid size, x."),
            _null("grid_y", "int64", "blocks", "Grid size, y."),
            _null("grid_z", "int64", "blocks", "Grid size, z."),
            _null("block_x", "int64", "threads", "Block size, x."),
            _null("block_y", "int64", "threads", "Block size, y."),
            _null("block_z", "int64", "threads", "Block size, z."),
            _null("registers_per_thread", "int64", "", "Registers a thread."),
            _null("shared_memory_bytes", "int64", "bytes", "Shared memory a block, static and dynamic."),
            _null("blocks_per_sm", "float64", "", "Blocks / SMs, as the recorder computed it."),
            _null("warps_per_sm", "float64", "", "Warps / SMs, as the recorder computed it."),
            _null("occupancy_pct", "float64", "%", "Estimated achieved occupancy, as the recorder computed it."),
            _null("queued", "int64", "ns", "Queued time stamp, where recorded."),
            _null("graph_id", "int64", "", "CUDA graph that the kernel ran in."),
            _null("graph_node_id", "int64", "", "Node of that graph."),
            *_LAUNCH,
        ),
    ),
    Table(
        "memcpy",
        "One copy or fill on a device: a slice of category gpu_memcpy or gpu_memset (or the older names).",
        (
            _SLICE_ID,
            *_PLACE,
            _null("bytes", "int64", "bytes", "Bytes moved or set."),
            _null("bandwidth_gb_per_s", "float64", "GB/s", "As the recorder computed it (GB is 1e9 bytes)."),
            *_LAUNCH,
        ),
    ),
    Table(
        "collective",
        "One collective's arguments, on its host op (record_param_comms) or on its device kernel.",
        (
            _SLICE_ID,
            _null("collective_name", "text", "", "allreduce, allgather, …"),
            _null("dtype", "text", "", "Element type."),
            _null("in_nelems", "int64", "elements", "In msg nelems."),
            _null("out_nelems", "int64", "elements", "Out msg nelems."),
            _null("in_split", "text", "JSON", "In split size."),
            _null("out_split", "text", "JSON", "Out split size."),
            _null("group_size", "int64", "ranks", "Ranks in the process group."),
            _null("group_name", "text", "", "Process Group Name."),
            _null("group_description", "text", "", "Process Group Description."),
            _null("group_ranks", "text", "JSON", "Process Group Ranks, as written."),
            _null("rank", "int64", "", "Rank that recorded it."),
            _null("source_rank", "int64", "", "Src Rank of a point-to-point operation."),
            _null("destination_rank", "int64", "", "Dst Rank of a point-to-point operation."),
            _null("sequence", "int64", "", "Seq: order within the group."),
            _null("is_async", "bool", "", "Is asynchronized op."),
            _null("comms_id", "text", "", "Comms Id (an unsigned 64-bit number, as written)."),
        ),
    ),
    Table(
        "sync",
        "One cuda_sync row: a wait that CUPTI reported on a stream, event or context.",
        (
            _SLICE_ID,
            _null("sync_kind", "text", "", "Stream Sync, Event Sync, Stream Wait Event, Context Sync."),
            _null("wait_on_stream", "int64", "", "Stream that was waited for."),
            _null("event_record_correlation_id", "int64", "", "Correlation id of the cudaEventRecord waited for."),
            _null("event_id", "int64", "", "CUDA event waited for."),
        ),
    ),
    Table(
        "python_call",
        "One Python function call (with_stack=True), joined to its caller by Python's own ids.",
        (
            _SLICE_ID,
            _null("python_id", "int64", "", "Id of the call."),
            _null("python_parent_id", "int64", "", "Id of the calling frame."),
            _null("python_module_id", "int64", "", "Instance number of an nn.Module call."),
        ),
    ),
    Table(
        "xla_op",
        "What XLA (JAX, TensorFlow) says of a slice: the instruction that it ran, or the step that it marks.",
        (
            _SLICE_ID,
            _null("hlo_op", "text", "", "Name of the HLO instruction."),
            _null("hlo_opcode", "text", "", "Its opcode; known where the file holds the compiled module."),
            _null("hlo_module", "text", "", "Name of the compiled module."),
            _null("hlo_category", "text", "", "XLA's own category of the instruction (TPU)."),
            _null("framework_op", "text", "", "The framework's op that it was compiled from (tf_op)."),
            _null("kernel_details", "text", "", "Registers, shared memory, grid and block of a kernel, as written."),
            _null("transfer_details", "text", "", "Kind and size of a copy or fill, as written."),
            _null("step_number", "int64", "", "Number of the step that the slice marks."),
            _null("program_id", "int64", "", "Id of the compiled program."),
            _null("run_id", "int64", "", "Id of the run of that program."),
            _null("device", "int32", "", "Device ordinal that it ran on."),
            _null("flops", "int64", "", "Floating-point operations, as the compiler counts them."),
            _null("bytes_accessed", "int64", "bytes", "Bytes read and written, as the compiler counts them."),
        ),
    ),
    Table(
        "flow",
        "One end of an arrow between slices, as recorded; Trace.flows() pairs them.",
        (
            _TS,
            _TRACK,
            Column("phase", "text", "", "s (starts), t (step) or f (finishes)."),
            Column("name", "text", "", "Name, as recorded."),
            Column("category", "text", "", "ac2g, fwdbwd, …"),
            _null("flow_id", "int64", "", "Joins the ends; null where the id is no 64-bit integer."),
            _null("flow_id_text", "text", "", "The id as written, where it is no 64-bit integer."),
            _OFFSET,
        ),
    ),
    Table(
        "counter",
        "One value of one series of a counter.",
        (
            _TS,
            _TRACK,
            Column("name", "text", "", "Counter's name."),
            Column("series", "text", "", "Key within the counter's args."),
            _null("value", "float64", "", "Value, in the unit that the recorder used."),
            _OFFSET,
        ),
    ),
    Table(
        "instant",
        "One instant event, [memory] events excepted.",
        (
            _TS,
            _TRACK,
            Column("name", "text", "", "Name, as recorded."),
            Column("category", "text", "", "Category, verbatim; empty where the event has none."),
            _OFFSET,
        ),
    ),
    Table(
        "memory_event",
        "One allocation (bytes > 0) or free (bytes < 0): a [memory] event.",
        (
            _TS,
            _TRACK,
            _null("device_type", "int32", "", "c10::DeviceType (0 CPU, 1 CUDA, …)."),
            _null("device", "int32", "", "Device ordinal; null for the CPU."),
            _null("address", "int64", "", "Address."),
            _null("bytes", "int64", "bytes", "Bytes allocated, negative when freed."),
            _null("total_allocated_bytes", "int64", "bytes", "Allocated on that device after the event."),
            _null("total_reserved_bytes", "int64", "bytes", "Reserved by the allocator after the event."),
            _null("event_index", "int64", "", "Recorder's own index (Ev Idx)."),
            _OFFSET,
        ),
    ),
    Table(
        "compile_event",
        "One thing that torch.compile did, or could not do; only recordings of the collector have them.",
        (
            Column("ts", "int64", "ns", "When it began, on the file's clock."),
            _null("dur", "int64", "ns", "How long it took; null for what has no duration, or whose end was not seen."),
            Column("kind", "text", "", "compile, graph_break, recompile, cache_hit or cache_miss."),
            _null("frame_id", "int64", "", "Dynamo's number of the frame: the 2 of 2/1."),
            _null("frame_compile_id", "int64", "", "Which compilation of that frame: the 1 of 2/1."),
            _null("name", "text", "", "What was compiled (the function's name), or which cache was asked."),
            _null("reason", "text", "", "Why the graph broke, which guard failed, or why compilation failed."),
            _null("file", "text", "", "The user's source file."),
            _null("line", "int64", "", "Line in that file."),
        ),
    ),
    Table(
        "tensor",
        "A tensor that the recorder knew the role of, when it was first seen and when it was seen elsewhere; a "
        "gradient again at each step of its optimizer. Only recordings of the collector have them.",
        (
            Column("ts", "int64", "ns", "When it was seen, on the file's clock."),
            Column("device_type", "int32", "", "c10::DeviceType (0 CPU, 1 CUDA, …)."),
            _null("device", "int32", "", "Device ordinal; null for the CPU."),
            _null("address", "int64", "", "Where its storage begins; null where it has no storage (sparse, meta)."),
            _null("bytes", "int64", "bytes", "Size of its storage; null where it has none."),
            Column("role", "text", "", "parameter, gradient or optimizer_state."),
            _null("name", "text", "", "Name of the parameter (layer1.weight), or key of the state (exp_avg)."),
            _null("module", "text", "", "Class of the module that holds the parameter, or of the optimizer."),
        ),
    ),
    Table(
        "step",
        "One training step: ProfilerStep#N, Iteration#N, or the user's own marks.",
        (
            _SLICE_ID,
            Column("number", "int64", "", "N of the mark; its order where it has none."),
            Column("ts", "int64", "ns", "Start."),
            Column("dur", "int64", "ns", "Duration."),
            Column("truncated", "bool", "", "The recording starts or ends inside this step."),
        ),
    ),
    Table(
        "metadata",
        "One fact about the recording: a key of the file, or one argument of a metadata event.",
        (
            Column("scope", "text", "", "file, or the metadata event's name (process_name, …)."),
            _null("track_id", "int32", "row of track", "Track that a metadata event speaks of."),
            Column("key", "text", "", "Key."),
            Column("value", "text", "JSON", "Value as written."),
        ),
    ),
    Table(
        "health",
        "One kind of fault or lack in the file.",
        (
            Column("kind", "text", "", "See docs/health.md: repaired, dropped, truncated, overlapping, no_launch, …"),
            Column("count", "int64", "", "How many events it concerns."),
            _null("byte_offset", "int64", "bytes", "The first place, in the uncompressed file."),
            Column("message", "text", "", "What was found, what was done about it, what it means for the numbers."),
        ),
    ),
)

BY_NAME: dict[str, Table] = {table.name: table for table in TABLES}
