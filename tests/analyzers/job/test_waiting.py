"""Clocks and waits, by hand."""

from __future__ import annotations

import numpy as np

from profsuite.analyzers.collectives import NONE


def test_offset_waits_and_matrix(ranks):
    # rank 1's clock is 500 us ahead; rank 1 arrives 30 us late at the first, 20 us early at the second
    job = ranks(2)
    job.add(0, 1000, 100, seq=1).add(0, 2000, 60, seq=2)
    job.add(1, 1530, 70, seq=1).add(1, 2480, 80, seq=2)
    found = job.job()
    assert found.clocks.offset.tolist() == [0, 500_000]
    assert found.clocks.residual.tolist() == [-1, 0]
    waits = found.waits
    assert waits.transfer.tolist() == [70_000, 60_000]
    assert waits.skew.tolist() == [30_000, 20_000]
    assert waits.last.tolist() == [1, 0]
    assert waits.matrix.tolist() == [[0, 20_000], [30_000, 0]]
    assert found.straggler == 1


def test_the_offset_is_robust_against_some_ends(ranks):
    job = ranks(2)
    for seq in range(1, 8):
        late = 90 if seq in (2, 5) else 0
        job.add(0, 1000 * seq, 100, seq=seq).add(1, 1000 * seq + 250, 100 + late, seq=seq)
    found = job.job()
    assert found.clocks.offset.tolist() == [0, 250_000]


def test_broadcasts_do_not_set_the_clock_where_others_do(ranks):
    job = ranks(2)
    for seq in (1, 2, 3):
        job.add(0, 1000 * seq, 10, "broadcast", seq=seq).add(1, 1000 * seq + 5, 300, "broadcast", seq=seq)
    job.add(0, 5000, 50, seq=4).add(1, 5005, 50, seq=4)
    assert job.job().clocks.offset.tolist() == [0, 5_000]


def test_clocks_reach_through_other_ranks(ranks):
    job = ranks(4)
    job.add(0, 100, 10, seq=1, members=[0, 1], group="a").add(1, 120, 10, seq=1, members=[0, 1], group="a")
    job.add(1, 300, 10, seq=1, members=[1, 2], group="b").add(2, 303, 10, seq=1, members=[1, 2], group="b")
    job.add(3, 900, 10, seq=1, members=[3], group="c")
    clocks = job.job().clocks
    assert clocks.known.tolist() == [True, True, True, False]
    assert (clocks.offset - clocks.offset[0])[:3].tolist() == [0, 20_000, 23_000]


def test_a_wait_is_never_longer_than_the_collective(ranks):
    # by the ends of the others rank 1's clock is right; its third collective ends before rank 0 arrives
    job = ranks(2)
    for seq in (1, 2):
        job.add(0, 1000 * seq, 100, seq=seq).add(1, 1000 * seq, 100, seq=seq)
    job.add(0, 3500, 100, "broadcast", seq=3).add(1, 3000, 40, "broadcast", seq=3)
    assert job.job().waits.matrix.tolist() == [[0, 40_000], [0, 0]]


def test_only_exposed_waiting_counts_as_exposed(ranks):
    job = ranks(2)
    job.add(0, 1000, 100, seq=1).add(1, 1060, 40, seq=1)
    job[0].kernel(1000, 50, name="gemm", device=0)  # hides 50 of the 60 us that rank 0 waits
    job[1].kernel(900, 100, name="gemm", device=1)
    waits = job.job().waits
    assert waits.matrix.tolist() == [[0, 0], [60_000, 0]]
    assert waits.exposed_matrix.tolist() == [[0, 0], [10_000, 0]]
    assert [w.tolist() for w in waits.exposed] == [[50_000], [40_000]]


def test_one_rank_alone_waits_for_nobody(ranks):
    job = ranks(2).add(0, 100, 10, seq=1).add(1, 300, 10, seq=2)
    found = job.job()
    assert found.waits.last.tolist() == [-1, -1]
    assert found.waits.transfer.tolist() == [NONE, NONE]
    assert not found.waits.matrix.any()
    assert found.straggler is None


def test_blocks_give_what_the_whole_gives(ranks, monkeypatch):
    job = ranks(3)
    generator = np.random.default_rng(1)
    for seq in range(1, 40):
        for rank in range(3):
            late = int(generator.integers(0, 50))
            job.add(rank, 1000 * seq + late, 200 - late, seq=seq)
    whole = job.job().waits
    monkeypatch.setattr("profsuite.analyzers.job.waiting.BLOCK_CELLS", 12)
    blocks = job.job().waits
    assert (whole.matrix == blocks.matrix).all()
    assert (whole.last == blocks.last).all()
