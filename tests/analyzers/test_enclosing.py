"""What lies inside what, against walking up parent by parent."""

from __future__ import annotations

import numpy as np

from profsuite.analyzers.enclosing import enclosing, inside, outermost


def nested(job, rng, slices=400):
    """Slices nested at random on two threads."""
    for tid in (1, 2):
        at = 0
        while at < slices:
            depth = int(rng.integers(1, 12))
            for level in range(depth):
                job.op(f"op{level}", 100 * at + level, 100 - 2 * level, tid)
            at += depth
    return job.trace()


def walked(parent, marked, row):
    while row >= 0 and not marked[row]:
        row = parent[row]
    return row


def test_against_walking(job):
    rng = np.random.default_rng(7)
    trace = nested(job, rng)
    parent = trace.array("slice", "parent_id")
    assert trace.array("slice", "depth").max() >= 10
    for share in (0.0, 0.02, 0.3, 1.0):
        marked = rng.random(len(parent)) < share
        around = [walked(parent, marked, row) for row in range(len(parent))]
        assert enclosing(trace, marked).tolist() == around
        within = [bool(parent[row] >= 0 and around[parent[row]] >= 0) for row in range(len(parent))]
        assert inside(trace, marked).tolist() == within
        assert outermost(trace, marked).tolist() == [r for r in np.flatnonzero(marked).tolist() if not within[r]]


def test_of_nothing(job):
    trace = job.trace()
    nothing = np.zeros(0, bool)
    assert not len(enclosing(trace, nothing))
    assert not len(inside(trace, nothing))
    assert not len(outermost(trace, nothing))
