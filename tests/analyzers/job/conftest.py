"""Tiny jobs of several ranks, written by hand in microseconds."""

from __future__ import annotations

import json

import pytest

from profsuite.analyzers.analysis import Analysis
from profsuite.analyzers.job.report import Job
from profsuite.analyzers.job.summary import summarise

NCCL = "ncclDevKernel_{}_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
NAMES = {"allreduce": "AllReduce_Sum_bf16", "_allgather_base": "AllGather", "_reduce_scatter_base": "ReduceScatter"}


class Ranks:
    """The ranks of a job under construction, by number; ``add`` puts a collective on one of them."""

    def __init__(self, job, folder, world):
        self.jobs = []
        for rank in range(world):
            own = folder / f"of{rank}"
            own.mkdir()
            one = type(job)(own)
            one.header = {"distributedInfo": {"rank": rank, "world_size": world, "backend": "nccl"}}
            self.jobs.append(one)

    def __getitem__(self, rank):
        return self.jobs[rank]

    def add(self, rank, ts, dur, kind="allreduce", *, seq=None, nelems=1000, dtype="Float", members=None, group="0",
            description="default_pg", bare=False, stream=20, **more):  # fmt: skip
        args = {}
        if not bare:
            members = list(range(len(self.jobs))) if members is None else members
            out = nelems * len(members) if kind == "_allgather_base" else nelems
            args = {
                "Collective name": kind,
                "In msg nelems": nelems,
                "Out msg nelems": out,
                "dtype": dtype,
                "Group size": len(members),
                "Process Group Name": group,
                "Process Group Description": description,
                "Process Group Ranks": json.dumps(members) if isinstance(members, list) else members,
            } | more
            if seq is not None:
                args["Seq"] = seq
        name = NCCL.format(NAMES.get(kind, "SendRecv"))
        self[rank].kernel(ts, dur, name=name, stream=stream, device=rank, **args)
        return self

    def summaries(self):
        return [summarise(Analysis(job.trace()), only=()) for job in self.jobs]

    def job(self, **options):
        return Job(self.summaries(), **options)


@pytest.fixture
def ranks(job, tmp_path):
    """A function from the number of ranks to ``Ranks``."""
    return lambda world: Ranks(job, tmp_path, world)
