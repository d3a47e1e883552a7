"""Kernels of compiled functions: by hand, and in real files."""

from __future__ import annotations

import pyarrow as pa
import pytest

from profsuite.analyzers.compiled_kernels import compiled_kernels
from profsuite.trace.model import Trace
from profsuite.trace.schema import BY_NAME

TRITON = "triton_poi_fused_add_relu_0"


@pytest.fixture
def compiled(job):
    """A step in Python calls function 2/1: a generated kernel twice and a library's; then an eager kernel."""
    job.python("train.py(10): step", 0, 400)
    job.op("Torch-Compiled Region: 2/1", 10, 200)
    job.python("/tmp/torchinductor_me/ab/cab.py(33): call", 20, 150)
    generated = {"kernel_backend": "triton", "kernel_file": "/tmp/torchinductor_me/xy/cxy.py"}
    for n, at in enumerate((30, 60)):
        job.op(TRITON, at, 20, **generated).launch(at + 5, 5, n + 1).kernel(at + 200, 10 + n, n + 1, TRITON)
    job.op("aten::mm", 90, 20).launch(95, 5, 3).kernel(400, 30, 3, "gemm")
    job.op("aten::mm", 300, 20).launch(305, 5, 4).kernel(500, 50, 4, "gemm")
    return job.trace()


def test_back_to_the_source(compiled):
    found = compiled_kernels(compiled)
    assert (found.num_names, found.total_ns, found.generated_ns) == (2, 51_000, 21_000)
    assert found.pct == pytest.approx(100 * 51 / 101)
    library, own = found.rows
    assert (library.name, library.generated, library.count, library.total_ns) == ("gemm", False, 1, 30_000)
    assert (library.region, library.op, library.file) == ("2/1", "aten::mm", None)
    assert (own.name, own.generated, own.count, own.total_ns) == (TRITON, True, 2, 21_000)
    assert (own.region, own.op, own.file) == ("2/1", TRITON, "/tmp/torchinductor_me/xy/cxy.py")
    # The generated code is not the user's.
    assert own.frame == library.frame == "train.py(10): step"
    assert compiled.array("slice", "dur")[own.longest_slice_id] == 11_000
    assert own.function is own.source is None


def test_the_function_of_a_number(compiled):
    spec = BY_NAME["compile_event"]
    rows = [("compile", 2, 0, "old", "model.py", 5), ("compile", 2, 1, "forward", "model.py", 7)]
    columns = {
        "ts": [0, 0], "dur": [5, 5], "reason": [None, None],
        **{name: [row[n] for row in rows] for n, name in
           enumerate(("kind", "frame_id", "frame_compile_id", "name", "file", "line"))},
    }  # fmt: skip
    arrays = [pa.array(columns[c.name], c.arrow_type()) for c in spec.columns]
    table = pa.Table.from_arrays(arrays, schema=spec.arrow_schema())
    found = compiled_kernels(Trace({**compiled.tables, "compile_event": table}, compiled.info))
    assert {(row.function, row.source) for row in found.rows} == {("forward", "model.py:7")}


def test_a_generated_name_is_enough(job):
    trace = job.kernel(0, 10, name="triton_red_fused_sum_3").kernel(20, 10, name="triton_own_kernel").trace()
    (row,) = compiled_kernels(trace).rows
    assert (row.name, row.generated, row.region, row.op, row.frame) == (
        "triton_red_fused_sum_3",
        True,
        None,
        None,
        None,
    )


def test_nothing_compiled(job):
    assert compiled_kernels(job.trace()) is None
    assert compiled_kernels(job.launch(0, 5, 1).kernel(10, 5, 1).trace()) is None


def test_the_largest_come_first_and_all_are_counted(compiled):
    found = compiled_kernels(compiled, top=1)
    assert [row.name for row in found.rows] == ["gemm"]
    assert found.total_ns == 51_000


def test_real_files(real_trace):
    found = compiled_kernels(real_trace("mi300_torch_compile.json.gz"), 50)
    trace = real_trace("mi300_torch_compile.json.gz")
    kernels = trace.array("slice", "dur")[trace.array("kernel", "slice_id")].sum()
    assert found.total_ns == kernels == sum(row.total_ns for row in found.rows)  # all of it is one compiled block
    assert {row.region for row in found.rows} == {"0/0"}
    assert all(row.generated == row.name.startswith("triton_") for row in found.rows)
    assert all(row.file.endswith(".py") for row in found.rows if row.generated)
    (row,) = compiled_kernels(real_trace("b200_eager_stacks.json.gz")).rows
    assert row.region == "0/1"
    assert row.frame.startswith("vllm/model_executor/layers/vocab_parallel_embedding.py(")
