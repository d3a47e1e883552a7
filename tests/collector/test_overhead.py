"""What an event costs, measured on a step of its own."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from profsuite.collector import overhead  # noqa: E402


def test_the_cost_is_that_of_the_recorded_steps(monkeypatch):
    """2,000 ns a step more while it records, 20 events a step: 100 ns an event."""
    clock = [0]
    state = {"recording": False, "steps": 0}

    def step():
        clock[0] += 7_000 + (2_000 if state["recording"] else 0)
        state["steps"] += state["recording"]

    def stop():
        state["recording"] = False
        return 20 * state["steps"]

    monkeypatch.setattr(overhead, "_step", lambda torch: step)
    monkeypatch.setattr(overhead.time, "thread_time_ns", lambda: clock[0])
    assert overhead.event_cost_ns(lambda: state.update(recording=True), stop) == 100
    assert overhead.event_cost_ns(lambda: None, lambda: 0) == 0


def test_the_step_leaves_the_program_alone():
    weight = torch.ones(3, requires_grad=True)
    weight.sum().backward()
    before, gradient = torch.get_rng_state(), weight.grad.clone()
    recorded = []
    with torch.no_grad():
        session = torch.autograd.profiler.profile(use_kineto=True)

        def stop():
            session.__exit__(None, None, None)
            recorded.extend(event.name() for event in session.kineto_results.events())
            return len(recorded)

        assert overhead.event_cost_ns(session.__enter__, stop) >= 0
        assert not torch.is_grad_enabled()
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(weight.grad, gradient)
    # Forward, backward and update, of many kinds of ops: not one op again and again.
    assert len(set(recorded)) > 40
    assert {"aten::layer_norm", "aten::bmm", "aten::addcdiv_"} < set(recorded)
    assert any(name.startswith("autograd::engine::evaluate_function") for name in recorded)
