"""Several ranks of one job: collectives matched, clocks aligned, who waits for whom."""
