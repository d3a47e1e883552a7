"""The collectives of one rank by kind, size and group: what a trace that stands alone says of communication."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from profsuite.analyzers.base import Ns
from profsuite.analyzers.collectives import KINDS
from profsuite.analyzers.ranking import distinct_rows, sum_by_group

if TYPE_CHECKING:
    from profsuite.analyzers.collectives import Collectives


class OwnCollective(Struct, frozen=True, kw_only=True):
    """The calls of one kind, size, dtype and group.

    ``num_bytes`` is the larger of what goes in and comes out of one call, null where it was not recorded, as ``group``
    and ``dtype``.  ``total_ns`` is the sum of the calls' durations, the waiting for other ranks included;
    ``exposed_ns`` what no computation hid of them: over all rows it sums to the rank's exposed communication, since of
    time that two calls share each instant is the earlier one's.
    """

    kind: str
    group: str | None
    dtype: str | None
    num_bytes: int | None
    count: int
    total_ns: Ns
    min_ns: Ns
    max_ns: Ns
    exposed_ns: Ns
    longest_slice_id: int


def own_collectives(found: Collectives) -> tuple[OwnCollective, ...]:
    """What a rank called, the most exposed first."""
    if not len(found):
        return ()
    rows, index = distinct_rows(found.kind, found.num_bytes, found.dtype, found.group)
    dur, exposed = found.dur, found.exposed_ns
    order = np.lexsort((-dur, index))
    first = np.searchsorted(index[order], np.arange(len(rows)))
    last = np.append(first[1:], len(order)) - 1
    total, bare = (sum_by_group(index, values, len(rows)) for values in (dur, exposed))
    count = np.bincount(index, minlength=len(rows))
    made = [
        OwnCollective(
            kind=KINDS[found.kind[row]],
            group=None if found.group[row] < 0 else found.groups[found.group[row]].name,
            dtype=None if found.dtype[row] < 0 else found.dtypes[found.dtype[row]],
            num_bytes=None if found.num_bytes[row] < 0 else int(found.num_bytes[row]),
            count=int(count[n]),
            total_ns=int(total[n]),
            min_ns=int(dur[order[last[n]]]),
            max_ns=int(dur[order[first[n]]]),
            exposed_ns=int(bare[n]),
            longest_slice_id=int(found.slice_ids[order[first[n]]]),
        )
        for n, row in enumerate(rows.tolist())
    ]
    return tuple(sorted(made, key=lambda each: (-each.exposed_ns, -each.total_ns, each.kind)))
