"""Findings on the optimizer and on autograd; hand-written jobs, and small recordings of torch."""

from __future__ import annotations

import pytest

from profsuite.analyzers.analysis import Analysis
from profsuite.analyzers.enclosing import outermost
from profsuite.analyzers.findings import findings
from profsuite.analyzers.findings.recompute_cost import recomputed
from profsuite.analyzers.findings.single_tensor_optimizer import loop_steps
from profsuite.trace.load import load

STEP, ZERO = "Optimizer.step#SGD.step", "Optimizer.zero_grad#SGD.zero_grad"
BACKWARD = "autograd::engine::evaluate_function: AddmmBackward0"


def updates(job, op="aten::add_", at=400, number=20):
    """``number`` updates inside an optimizer's step of 200 us, 10 us a kernel and 10 us between two."""
    job.mark(STEP, at, 20 * number)
    for i in range(number):
        job.op(op, at + 20 * i, 10).launch(at + 20 * i + 2, 5, 100 + i)
        job.kernel(at + 20 * i + 10, 10, 100 + i, name="vectorized_elementwise_kernel<add>")
    return job


@pytest.fixture
def recorded(tmp_path):
    """A function that records another on the CPU, once warm, and gives the trace."""
    torch = pytest.importorskip("torch")

    def record(function, **settings):
        function()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **settings) as profiler:
            function()
        path = tmp_path / f"recorded{len(list(tmp_path.iterdir()))}.json"
        profiler.export_chrome_trace(str(path))
        return load(path, cache=False)

    return record


@pytest.fixture
def model():
    """A small model and an input that needs a gradient."""
    torch = pytest.importorskip("torch")
    nn = torch.nn
    layers = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 64))
    return layers, torch.randn(32, 64, requires_grad=True)


def test_single_tensor_optimizer(job, found, value):
    trace = updates(job.busy(6)).trace()
    finding = found(trace, "single_tensor_optimizer")
    # 200 us of kernels and 200 us of gaps, all of them after the step began.
    assert (value(finding, "its work alone"), value(finding, "device idle before that work")) == (200_000, 200_000)
    assert finding.cost_ns == 400_000
    assert (value(finding, "optimizer"), value(finding, "update ops")) == ("SGD", 20)
    assert "fused=True" in finding.remedy
    assert finding.counted_in == ("host_bound",)
    assert found(trace, "unfused_pointwise") is None


def test_single_tensor_optimizer_leaves_out_what_came_before_the_step(job, found):
    trace = updates(job.busy(4)).trace()  # idle from 300 us on, the step begins at 400 us
    assert found(trace, "single_tensor_optimizer").cost_ns == 400_000


def test_single_tensor_optimizer_not_with_foreach(job, found):
    assert found(updates(job.busy(6)).op("aten::_foreach_add_", 790, 5).trace(), "single_tensor_optimizer") is None


def test_single_tensor_optimizer_not_for_few_parameters(job, found):
    assert found(updates(job.busy(6), number=19).trace(), "single_tensor_optimizer") is None


def test_single_tensor_optimizer_not_for_counters_on_the_host(job, found):
    job.busy(6).mark(STEP, 400, 400).launch(401, 1, 99).kernel(790, 10, 99)
    for i in range(30):
        job.op("aten::add_", 410 + 10 * i, 5)
    assert found(job.trace(), "single_tensor_optimizer") is None


def one_by_one(job, kind, *, ops=("aten::mul_", "aten::addcmul_"), steps=2):
    """Steps of 1000 us on the CPU, 400 us of them in an optimizer that calls 20 updates of 10 us."""
    for number in range(steps):
        at = 1000 * number
        job.step(number, at, 1000).op("aten::mm", at, 500).mark(f"Optimizer.step#{kind}.step", at + 500, 400)
        for i in range(20):
            job.op(ops[i % len(ops)], at + 500 + 20 * i, 10)
    return job


@pytest.mark.parametrize(("kind", "left"), [("Adam", 0.44), ("AdamW", 0.44), ("Adagrad", 0.43), ("SGD", 0.71)])
def test_a_fused_update_on_the_cpu_is_not_free(job, found, value, kind, left):
    # What remains was measured (benchmarks/fused_updates.py).
    finding = found(one_by_one(job, kind).trace(), "single_tensor_optimizer")
    assert (finding.cost_ns, value(finding, "lost to it")) == (800_000, 0.4)
    assert finding.saving_ms_per_step == pytest.approx(0.4 * (1 - left))


@pytest.mark.parametrize(("kind", "ops"), [("RMSprop", ("aten::mul_",)), ("SGD", ("aten::add_",))])
def test_no_saving_where_none_was_measured(job, found, kind, ops):
    finding = found(one_by_one(job, kind, ops=ops).trace(), "single_tensor_optimizer")
    assert (finding.cost_ns, finding.saving_ms_per_step) == (800_000, None)


# What torch records is tested without the thresholds: a busy machine stretches these tiny recordings at will.


@pytest.mark.parametrize(
    ("setting", "one_by_one"), [({"foreach": False}, True), ({"foreach": True}, False), ({"fused": True}, False)]
)
def test_optimizers_as_recorded(recorded, setting, one_by_one):
    torch = pytest.importorskip("torch")
    parameters = [torch.nn.Parameter(torch.ones(8)) for _ in range(10)]
    for parameter in parameters:
        parameter.grad = torch.ones(8)
    steps = loop_steps(Analysis(recorded(torch.optim.AdamW(parameters, **setting).step)))
    assert steps.sum() == one_by_one


def test_optimizer_zero_grad(job, found, value):
    job.busy(10).mark(ZERO, 590, 100).op("aten::zero_", 595, 20).op("aten::fill_", 596, 18)
    job.call("cudaMemsetAsync", 600, 5, 99).slice(
        "gpu_memset", "Memset (Device)", 620, 10, 7, 0, device=0, stream=7, correlation=99
    )
    finding = found(job.trace(), "optimizer_zero_grad")
    assert (finding.cost_ns, value(finding, "device idle before that work"), value(finding, "fills")) == (
        30_000,
        20_000,
        1,
    )
    assert "set_to_none=True" in finding.remedy


def test_optimizer_zero_grad_not_where_gradients_are_dropped(job, found):
    assert (
        found(job.busy(10).mark(ZERO, 590, 100).launch(700, 5, 99).kernel(710, 10, 99).trace(), "optimizer_zero_grad")
        is None
    )


def test_recompute_cost(job, found, value):
    forward = {"Sequence number": 7, "Fwd thread id": 0}
    job.busy(4).op(BACKWARD, 280, 300, **{"Sequence number": 3, "Fwd thread id": 1})
    job.op("AddmmBackward0", 281, 298, **{"Sequence number": 3, "Fwd thread id": 1})
    job.op("aten::linear", 290, 50, **forward).op("aten::addmm", 291, 48, **forward).launch(298, 5, 98)
    job.kernel(310, 40, 98).op("aten::mm", 350, 50).launch(360, 5, 99).kernel(370, 100, 99)
    finding = found(job.trace(), "recompute_cost")
    assert (finding.severity, finding.cost_ns) == ("info", 50_000)
    assert (value(finding, "forward ops run again"), value(finding, "longest")) == (1, "aten::linear")


@pytest.mark.parametrize("reentrant", [True, False])
def test_recomputed_ops_as_recorded(recorded, model, reentrant):
    checkpoint = pytest.importorskip("torch.utils.checkpoint").checkpoint
    layers, given = model
    trace = recorded(lambda: checkpoint(layers, given, use_reentrant=reentrant).sum().backward())
    analysis = Analysis(trace)
    again = [analysis.name_of(row) for row in outermost(trace, recomputed(analysis))]
    assert again == ["aten::linear", "aten::gelu", "aten::layer_norm", "aten::linear"]


def test_recomputed_ops_not_in_a_backward_of_a_backward(recorded, model):
    torch = pytest.importorskip("torch")
    layers, given = model

    def penalty():
        (gradient,) = torch.autograd.grad(layers(given).sum(), given, create_graph=True)
        (gradient**2).sum().backward()

    assert not recomputed(Analysis(recorded(penalty))).any()


def test_recomputed_ops_not_in_an_ordinary_backward(recorded, model):
    layers, given = model
    assert not recomputed(Analysis(recorded(lambda: layers(given).sum().backward()))).any()


def test_anomaly_mode(job, found, value):
    job.busy(4).op(BACKWARD, 280, 100).op("AddmmBackward0", 281, 20).launch(285, 5, 97).kernel(300, 20, 97)
    job.op("aten::isnan", 305, 20).launch(318, 5, 98).kernel(330, 10, 98)
    job.op("aten::item", 330, 30).call("cudaStreamSynchronize", 332, 20).op("aten::mm", 380, 20).launch(385, 5, 99)
    trace = job.kernel(400, 100, 99).trace()
    finding = found(trace, "anomaly_mode")
    # 10 us of kernel, 10 us until it starts, 60 us from its end until the work after the wait.
    assert (value(finding, "their work alone"), value(finding, "device idle for them")) == (10_000, 70_000)
    assert (finding.cost_ns, value(finding, "both together")) == (None, 80_000)


def test_anomaly_mode_as_recorded(recorded, model, found):
    torch = pytest.importorskip("torch")
    layers, given = model

    def check():
        with torch.autograd.detect_anomaly(check_nan=True):
            layers(given).sum().backward()

    with pytest.warns(UserWarning, match="Anomaly Detection"):
        trace = recorded(check)
    assert found(trace, "anomaly_mode").severity in {"warning", "critical"}


def test_anomaly_mode_not_for_the_users_own_checks(job, found):
    job.op(BACKWARD, 0, 100).op("MyFunctionBackward", 1, 98).op("aten::isnan", 10, 50).op("aten::item", 70, 20)
    assert found(job.trace(), "anomaly_mode") is None


def test_what_zeroing_costs_is_what_its_replay_saves(real_trace):
    """Two ways to one number: gaps and kernels of the marks, and the recording replayed without them."""
    for name in ("v100_resnet50_workers0.json.gz", "v100_resnet50_workers4.json.gz"):
        analysis = Analysis(real_trace(name))
        finding = next(f for f in findings(analysis) if f.id == "optimizer_zero_grad")
        assert finding.saving_ms_per_step == pytest.approx(analysis.per_step_ms(finding.cost_ns), rel=0.01)
