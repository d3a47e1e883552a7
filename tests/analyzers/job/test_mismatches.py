"""What the ranks do not agree on."""

from __future__ import annotations


def told(job):
    return [(m.what, m.ranks, m.count, m.kind, m.sequence, m.detail) for m in job.job().mismatches]


def test_ranks_that_agree(ranks):
    job = ranks(3)
    for seq in (1, 2):
        for rank in range(3):
            job.add(rank, 100 * seq + rank, 10, seq=seq)
    assert told(job) == []


def test_a_collective_is_missing_only_inside_of_a_recording(ranks):
    job = ranks(3)
    for seq in (1, 2, 3, 4):
        for rank in range(3):
            # rank 1 lacks 2; rank 2's recording begins at 2 and ends at 3
            if not (rank == 1 and seq == 2) and not (rank == 2 and seq in (1, 4)):
                job.add(rank, 100 * seq, 10, seq=seq)
    assert told(job) == [("missing", (1,), 1, "all_reduce", 2, "2 ranks have it")]


def test_a_rank_that_never_joins_its_group(ranks):
    job = ranks(2)
    job.add(0, 100, 10, seq=1, group="g").add(0, 200, 10, seq=2, group="g")
    job.add(1, 100, 10, seq=1, group="other", members=[1])
    assert told(job) == [("missing", (1,), 2, "all_reduce", 1, "rank 0 has it")]


def test_another_collective_in_its_place(ranks):
    job = ranks(3)
    for rank in range(3):
        job.add(rank, 100, 10, "_allgather_base" if rank == 2 else "allreduce", seq=1)
    assert told(job) == [("kind", (2,), 1, "all_reduce", 1, "all_gather instead of all_reduce")]


def test_size_and_type(ranks):
    job = ranks(3)
    for rank in range(3):
        job.add(rank, 100, 10, seq=1, nelems=999 if rank == 1 else 1000)
        job.add(rank, 200, 10, seq=2, dtype="Int" if rank == 0 else "Float")
    assert told(job) == [
        ("bytes", (1,), 1, "all_reduce", 1, "3,996 bytes instead of 4,000 bytes"),
        ("dtype", (0,), 1, "all_reduce", 2, "Int instead of Float"),
    ]


def test_uneven_parts_are_allowed_where_they_mean_something(ranks):
    job = ranks(2)
    job.add(0, 100, 10, "all_to_allv", seq=1, nelems=10).add(1, 100, 10, "all_to_allv", seq=1, nelems=90)
    assert told(job) == []


def test_another_order_without_sequence_numbers(ranks):
    job = ranks(2)
    job.add(0, 100, 10).add(0, 200, 10, "_allgather_base").add(0, 300, 10)
    job.add(1, 100, 10, "_allgather_base").add(1, 200, 10).add(1, 300, 10)
    assert told(job) == [("order", (1,), 2, "all_gather", None, "all_gather where rank 0 has all_reduce")]


def test_sends_that_were_not_recorded_on_both_sides(ranks):
    job = ranks(2)
    pipe = {"group": "pp", "Src Rank": 0, "Dst Rank": 1}
    job.add(0, 100, 10, "send", **pipe).add(0, 200, 10, "send", **pipe)
    job.add(1, 100, 10, "recv", **pipe)
    assert told(job) == []
