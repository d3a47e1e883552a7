"""The collectives of a job by kind and group: how often, how large, how fast, how much is waiting, how much exposed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from profsuite.analyzers.base import Ns, Pct
from profsuite.analyzers.collectives import KINDS, NONE
from profsuite.analyzers.job.fabrics import Fabric, bus_factor, fabric_of
from profsuite.analyzers.transfer_model import TransferModel, transfer_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from profsuite.analyzers.job.matching import Matches
    from profsuite.analyzers.job.summary import RankSummary
    from profsuite.analyzers.job.waiting import Waiting


class CollectiveRow(Struct, frozen=True, kw_only=True):
    """One kind of collective in one group.

    ``count`` collectives among ``num_ranks`` ranks.  ``transfer_ns`` is the sum of their transfers (a transfer is the
    shortest duration over the ranks), ``skew_ns`` the sum of their longest waits.  ``exposed_ns`` is what nothing hid,
    summed over the ranks, of which ``exposed_wait_ns`` waited for other ranks, most of it for ``waits_for`` (null
    where it did not wait).  ``alg_gb_per_s`` = all bytes / all transfer of those whose size is known, GB = 1e9;
    ``bus_gb_per_s`` = that x the kind's factor; ``fabric_pct`` = that / the fabric's bandwidth, null where no fabric
    is known, or where more arrived than it can carry.  ``transfers`` is null where the sizes tell nothing.
    """

    kind: str
    group: str | None
    num_ranks: int
    count: int
    num_bytes: int | None
    transfer_ns: Ns
    skew_ns: Ns
    exposed_ns: Ns
    exposed_wait_ns: Ns
    waits_for: int | None
    alg_gb_per_s: float | None
    bus_gb_per_s: float | None
    fabric: str | None
    fabric_pct: Pct | None
    transfers: TransferModel | None


def collective_table(
    summaries: Sequence[RankSummary], matches: Matches, waits: Waiting, fabric: Fabric | None
) -> tuple[CollectiveRow, ...]:
    """All kinds and groups, the most exposed first; ``fabric`` is the one given, else it is told from the files."""
    several = waits.transfer != NONE
    if not several.any():
        return ()
    kinds = kinds_of(summaries, matches)
    member = matches.member
    rows = []
    for g, kind in sorted(
        {(g, k) for g, k in zip(matches.group[several].tolist(), kinds[several].tolist(), strict=True)}
    ):
        own = np.flatnonzero(several & (matches.group == g) & (kinds == kind))
        group = matches.groups[g]
        ranks = group.ranks if group.ranks is not None else np.array(matches.ranks)[member[g]].tolist()
        taking_part = np.flatnonzero(member[g]).tolist()
        known = fabric or fabric_of(
            [summaries[n].device_name for n in taking_part], [summaries[n].host_name for n in taking_part]
        )
        if len(taking_part) < len(ranks) and fabric is None:
            known = None  # the others may be on another host
        size, transfer = waits.num_bytes[own], waits.transfer[own]
        sized = (size > 0) & (transfer > 0)
        algorithm = float(size[sized].sum() / transfer[sized].sum()) if sized.any() else None
        factor = bus_factor(KINDS[kind], len(ranks))
        bus = algorithm * factor if algorithm is not None and factor is not None else None
        share = 100 * bus / known.gb_per_s if bus is not None and known is not None else None
        exposed, waited, cause = _exposed(matches, waits, own)
        rows.append(
            CollectiveRow(
                kind=KINDS[kind],
                group=group.description if group.description not in (None, "undefined") else group.name,
                num_ranks=len(ranks),
                count=len(own),
                num_bytes=int(size[size >= 0].sum()) if (size >= 0).all() else None,
                transfer_ns=int(transfer.sum()),
                skew_ns=int(np.maximum(waits.skew[own], 0).sum()),
                exposed_ns=exposed,
                exposed_wait_ns=waited,
                waits_for=cause,
                alg_gb_per_s=algorithm,
                bus_gb_per_s=bus,
                fabric=known.name if known is not None and bus is not None else None,
                fabric_pct=share if share is not None and share <= 100 else None,
                transfers=transfer_model(size[sized], transfer[sized]),
            )
        )
    return tuple(sorted(rows, key=lambda row: (-row.exposed_ns, -row.transfer_ns)))


def kinds_of(summaries: Sequence[RankSummary], matches: Matches) -> NDArray[np.int8]:
    """The kind of each matched collective, as the first rank that has it says."""
    kinds = np.zeros(len(matches), np.int8)
    for n in reversed(range(len(summaries))):
        here = matches.row[:, n] >= 0
        kinds[here] = summaries[n].collectives.kind[matches.row[here, n]]
    return kinds


def _exposed(matches: Matches, waits: Waiting, own: NDArray[np.int64]) -> tuple[int, int, int | None]:
    """Exposed time and exposed waiting of some collectives over all ranks, and the rank most of it waited for."""
    exposed, caused = 0, np.zeros(len(matches.ranks), np.int64)
    for n in range(len(matches.ranks)):
        here = own[matches.row[own, n] >= 0]
        mine = matches.row[here, n]
        exposed += int(waits.exposed[n][mine].sum())
        np.add.at(caused, np.maximum(waits.last[here], 0), waits.exposed_wait[n][mine])
    return exposed, int(caused.sum()), matches.ranks[int(caused.argmax())] if caused.any() else None
