"""Which calls of the ranks are one and the same collective."""

from __future__ import annotations

from profsuite.analyzers.job.matching import match
from profsuite.analyzers.job.mismatches import mismatches


def matched(found):
    """For each match: the starts (us) of the collectives of each rank."""
    summaries = found.summaries()
    m = match(summaries)
    starts = [[int(t) // 1000 for t in s.collectives.start] for s in summaries]
    return [[None if i < 0 else starts[n][i] for n, i in enumerate(row)] for row in m.row.tolist()], m


def test_by_sequence_number_whatever_was_not_recorded(ranks):
    job = ranks(2)
    for seq in (3, 4, 5):
        job.add(0, 100 * seq, 50, seq=seq)
    for seq in (4, 5, 6):
        job.add(1, 100 * seq + 7, 50, seq=seq)
    rows, m = matched(job)
    assert rows == [[300, None], [400, 407], [500, 507], [None, 607]]
    assert m.sequence.tolist() == [3, 4, 5, 6]
    assert m.groups[0].by_sequence


def test_groups_of_the_same_ranks_are_apart(ranks):
    job = ranks(2)
    for rank in (0, 1):
        job.add(rank, 100, 10, seq=1, group="1").add(rank, 200 + rank, 10, seq=1, group="2")
    assert matched(job)[0] == [[100, 100], [200, 201]]


def test_a_group_that_each_rank_names_otherwise(ranks):
    job = ranks(2).add(0, 100, 10, seq=1, group="1").add(1, 105, 10, seq=1, group="9")
    assert matched(job)[0] == [[100, 105]]


def test_the_same_number_twice_is_matched_in_order(ranks):
    job = ranks(2)
    for rank in (0, 1):
        job.add(rank, 100 + rank, 10, seq=1).add(rank, 200 + rank, 10, seq=1)
    assert matched(job)[0] == [[100, 101], [200, 201]]


def test_without_numbers_by_order_within_group_and_kind(ranks):
    job = ranks(2)
    job.add(0, 100, 10).add(0, 200, 10, "_allgather_base").add(0, 300, 10)
    job.add(1, 101, 10, "_allgather_base").add(1, 201, 10).add(1, 301, 10)
    assert sorted(matched(job)[0]) == [[100, 201], [200, 101], [300, 301]]


def test_order_counts_anew_in_each_step(ranks):
    job = ranks(2)
    for rank in (0, 1):
        job[rank].step(1, 0, 1000).step(2, 1000, 1000)
    job.add(0, 100, 10).add(0, 200, 10).add(0, 1100, 10)
    job.add(1, 101, 10).add(1, 1101, 10)
    assert matched(job)[0] == [[100, 101], [200, None], [1100, 1101]]


def test_by_name_alone_within_kind_and_stream(ranks):
    job = ranks(2)
    for rank in (0, 1):
        job.add(rank, 100 + rank, 10, bare=True, stream=20).add(rank, 50 + rank, 10, bare=True, stream=22)
    rows, m = matched(job)
    assert rows == [[100, 101], [50, 51]]
    assert all(group.ranks is None and group.name is None for group in m.groups)


def test_a_send_meets_its_receive(ranks):
    job = ranks(3)
    pipe = {"members": [0, 1, 2], "group": "pp"}
    job.add(0, 100, 10, "send", **pipe, **{"Src Rank": 0, "Dst Rank": 1})
    job.add(1, 102, 10, "recv", **pipe, **{"Src Rank": 0, "Dst Rank": 1})
    job.add(1, 200, 10, "send", **pipe, **{"Src Rank": 1, "Dst Rank": 2})
    job.add(2, 205, 10, "recv", **pipe, **{"Src Rank": 1, "Dst Rank": 2})
    rows, m = matched(job)
    assert rows == [[100, 102, None], [None, 200, 205]]
    assert [group.pair for group in m.groups] == [(0, 1), (1, 2)]
    assert m.member.tolist() == [[True, True, False], [False, True, True]]


def test_sends_without_peers_are_matched_only_if_all_have_equally_many(ranks):
    job = ranks(3)
    for rank, times in ((0, 1), (1, 2), (2, 1)):
        for i in range(times):
            # a pipeline's number counts sends and receives: it means nothing beside the collectives' numbers
            job.add(rank, 100 + 50 * i, 10, "coalesced", seq=i + 1)
        job.add(rank, 400, 10, seq=1)
    rows, m = matched(job)
    assert sorted(map(str, rows)) == sorted(
        map(str, [[100, None, None], [None, 100, None], [None, 150, None], [None, None, 100], [400, 400, 400]])
    )
    assert mismatches(job.summaries(), m) == ()


def test_sends_without_peers_in_even_numbers(ranks):
    job = ranks(2)
    for rank in (0, 1):
        job.add(rank, 100 + rank, 10, "coalesced", seq=5 - rank).add(rank, 200 + rank, 10, "coalesced", seq=7)
    assert matched(job)[0] == [[100, 101], [200, 201]]


def test_groups_of_some_ranks(ranks):
    job = ranks(4)
    for rank in range(4):
        pair = [0, 1] if rank < 2 else [2, 3]
        job.add(rank, 100 + rank, 10, seq=1, members=pair, group=f"tp{pair[0]}")
    rows, m = matched(job)
    assert rows == [[100, 101, None, None], [None, None, 102, 103]]
    assert m.member.tolist() == [[True, True, False, False], [False, False, True, True]]


def test_nothing_at_all(ranks):
    assert matched(ranks(2))[0] == []
