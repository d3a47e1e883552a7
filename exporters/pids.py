"""Pids and tids of written tracks: the trace's own, new ones for lanes, new pids where ranks would share one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from profsuite.exporters.timeline import Timeline

LANE_TIDS: Final = 1_000_000_001
"""From here on tracks are numbered that the trace has not; no system numbers its threads so high."""
PIDS_A_RANK: Final = 1_000


def track_names(rank: Timeline) -> list[list[str]]:
    """(pid, tid) of every written track of a rank, as text."""
    tracks = rank.batches.tracks
    pids = {pid: pid for pid, _ in tracks}
    if rank.num_ranks > 1:
        # Number k of rank i; a rank of more processes than its share shares them with no other all the same.
        for k, pid in enumerate(pids):
            block, place = divmod(k, PIDS_A_RANK - 1)
            pids[pid] = str((block * rank.num_ranks + rank.number + 1) * PIDS_A_RANK + place + 1)
    names = [[pids[pid], tid] for pid, tid in tracks]
    used = {(pid, tid) for pid, tid in names}
    number = LANE_TIDS
    for track in rank.tracks[len(tracks) :]:
        pid = names[track.number][0]
        while (pid, str(number)) in used:
            number += 1
        used.add((pid, str(number)))
        names.append([pid, str(number)])
        number += 1
    return names


def own_track(names: list[list[str]]) -> list[str]:
    """A track beside the others, for events that the trace has not as such."""
    pid = names[0][0] if names else "profsuite"
    number = LANE_TIDS - 1
    while [pid, str(number)] in names:
        number -= 1
    return [pid, str(number)]
