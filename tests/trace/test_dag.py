"""Longest paths: by hand, and the C version against the one in Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profsuite.trace import dag


def graph(edges: list[tuple[int, int, int]], own: list[int]):
    """(first, source, weight, own) of edges (target, source, weight)."""
    edges = sorted(edges, key=lambda edge: edge[0])
    first = np.searchsorted([target for target, _, _ in edges], np.arange(len(own) + 1)).astype(np.int64)
    source = np.array([source for _, source, _ in edges], np.int32)
    weight = np.array([weight for _, _, weight in edges], np.int64)
    return first, source, weight, np.array(own, np.int64)


def test_the_later_of_two_ways_decides():
    args = graph([(1, 0, 5), (2, 0, 1), (3, 1, 2), (3, 2, 2)], [0, 10, 20, 3])
    finish, binding = dag.earliest(*args)
    assert finish.tolist() == [0, 15, 21, 26]
    assert binding.tolist() == [-1, 0, 1, 3]
    # 1 may finish by 21, for 3 starts at 23 and is 2 away.
    assert dag.latest(*args, np.full(4, 26)).tolist() == [0, 21, 21, 26]


def test_an_edge_from_a_later_node_is_refused():
    with pytest.raises(ValueError, match="earlier node"):
        dag.earliest(*graph([(0, 1, 5)], [1, 1]))


def test_no_nodes():
    assert [len(found) for found in dag.earliest(*graph([], []))] == [0, 0]


@st.composite
def graphs(draw):
    n = draw(st.integers(1, 30))
    edges = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1), st.integers(-50, 50)), max_size=60))
    own = draw(st.lists(st.integers(0, 100), min_size=n, max_size=n))
    return graph([edge for edge in edges if edge[1] < edge[0]], own)


@given(graphs())
def test_both_versions_agree(args):
    for one, other in zip(dag.earliest(*args), dag.earliest_python(*args), strict=True):
        assert one.tolist() == other.tolist()
    bound = np.full(len(args[3]), int(dag.earliest(*args)[0].max()))
    late = dag.latest(*args, bound)
    assert late.tolist() == dag.latest_python(*args, bound).tolist()
    assert (late >= dag.earliest(*args)[0]).all()
    finish, binding = dag.earliest(*args)
    last = len(finish) - 1
    for begin in (0, int(finish[last]) // 2):
        path = dag.path_back(args[1], binding, finish, begin, last)
        assert path.tolist() == dag.path_back_python(args[1], binding, finish, begin, last).tolist()


def test_the_path_back_ends_where_it_begins():
    args = graph([(1, 0, 5), (2, 0, 1), (3, 1, 2), (3, 2, 2)], [0, 10, 20, 3])
    finish, binding = dag.earliest(*args)
    assert dag.path_back(args[1], binding, finish, 0, 3).tolist() == [3, 2, 0]
    assert dag.path_back(args[1], binding, finish, 21, 3).tolist() == [3, 2]
    assert dag.path_back(args[1], binding, finish, 0, 0).tolist() == [0]


def test_a_path_that_no_graph_has_is_refused_by_the_extension():
    native = pytest.importorskip("profsuite.trace._scanner").dag_path
    one = np.zeros(1, np.int64)
    with pytest.raises(ValueError, match="no path"):
        native(np.zeros(1, np.int32), one, one, 0, 1)
    with pytest.raises(ValueError, match="no path"):  # from itself, for ever
        native(np.zeros(1, np.int32), one, np.ones(1, np.int64), 0, 0)
