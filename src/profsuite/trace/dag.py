"""Longest paths in a directed acyclic graph whose nodes are numbered in topological order.

The edges of node ``i`` are ``first[i]`` to ``first[i + 1] - 1``; edge ``e`` comes from node ``source[e]``, an
earlier one, and takes ``weight[e]``.  Node ``i`` itself takes ``own[i]``.  All times are int64 ns.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]


def earliest(first: Int64s, source: NDArray[np.int32], weight: Int64s, own: Int64s) -> tuple[Int64s, Int64s]:
    """When each of n nodes finishes, and the edge that decides it (-1 without edges: it starts at 0).

    ``finish[i] = own[i] + max(finish[source[e]] + weight[e])``; of equal edges the first decides.  ``ValueError``
    where an edge does not come from an earlier node.  Runs in the C extension where it is built.
    """
    native = _native("dag_earliest")
    if native is not None:
        finish, binding = native(*_buffers(first, source, weight, own))
        return np.frombuffer(finish, np.int64), np.frombuffer(binding, np.int64)
    return earliest_python(first, source, weight, own)


def latest(first: Int64s, source: NDArray[np.int32], weight: Int64s, own: Int64s, bound: Int64s) -> Int64s:
    """How late each of n nodes may finish without any node finishing after its ``bound``; errors as ``earliest``'s."""
    native = _native("dag_latest")
    if native is not None:
        return np.frombuffer(native(*_buffers(first, source, weight, own), np.ascontiguousarray(bound)), np.int64)
    return latest_python(first, source, weight, own, bound)


def path_back(source: NDArray[np.int32], binding: Int64s, finish: Int64s, begin: int, end: int) -> Int64s:
    """The nodes that decide when ``end`` finishes, from it back along the ``binding`` edges of ``earliest``.

    The last is the first met that finishes by ``begin``, or has no edge.
    """
    native = _native("dag_path")
    if native is not None:
        return np.frombuffer(native(*_buffers_of_path(source, binding, finish), begin, end), np.int64)
    return path_back_python(source, binding, finish, begin, end)


def path_back_python(source: NDArray[np.int32], binding: Int64s, finish: Int64s, begin: int, end: int) -> Int64s:
    """``path_back`` without the extension."""
    # A view gives single elements faster than an array, and without a list of them all.
    edges, sources, finishes = binding.data, source.data, finish.data
    nodes = [end]
    while edges[nodes[-1]] >= 0 and finishes[nodes[-1]] > begin:
        nodes.append(sources[edges[nodes[-1]]])
    return np.array(nodes, np.int64)


def earliest_python(first: Int64s, source: NDArray[np.int32], weight: Int64s, own: Int64s) -> tuple[Int64s, Int64s]:
    """``earliest`` without the extension."""
    _check(first, source)
    firsts, sources, weights, owns = first.tolist(), source.tolist(), weight.tolist(), own.tolist()
    finish, binding = [0] * len(owns), [-1] * len(owns)
    for node, time in enumerate(owns):
        best, edge = 0, -1
        for e in range(firsts[node], firsts[node + 1]):
            at = finish[sources[e]] + weights[e]
            if edge < 0 or at > best:
                best, edge = at, e
        finish[node], binding[node] = best + time, edge
    return np.array(finish, np.int64), np.array(binding, np.int64)


def latest_python(first: Int64s, source: NDArray[np.int32], weight: Int64s, own: Int64s, bound: Int64s) -> Int64s:
    """``latest`` without the extension."""
    _check(first, source)
    firsts, sources, weights, owns = first.tolist(), source.tolist(), weight.tolist(), own.tolist()
    finish = bound.tolist()
    for node in range(len(owns) - 1, -1, -1):
        start = finish[node] - owns[node]
        for e in range(firsts[node], firsts[node + 1]):
            finish[sources[e]] = min(finish[sources[e]], start - weights[e])
    return np.array(finish, np.int64)


def _check(first: Int64s, source: NDArray[np.int32]) -> None:
    node = np.repeat(np.arange(len(first) - 1), np.diff(first))
    if len(node) != len(source) or not bool(((source >= 0) & (source < node)).all()):
        raise ValueError("an edge that does not come from an earlier node")


def _buffers(first: Int64s, source: NDArray[np.int32], *times: Int64s) -> tuple[NDArray[Any], ...]:
    arrays = [np.ascontiguousarray(array, np.int64) for array in (first, *times)]
    return (arrays[0], np.ascontiguousarray(source, np.int32), *arrays[1:])


def _buffers_of_path(source: NDArray[np.int32], *columns: Int64s) -> tuple[NDArray[Any], ...]:
    return (np.ascontiguousarray(source, np.int32), *(np.ascontiguousarray(c, np.int64) for c in columns))


def _native(name: str) -> Any:
    """A function of the C extension, None where that was not built."""
    try:
        return getattr(import_module("profsuite.trace._scanner"), name, None)
    except ImportError:
        return None
