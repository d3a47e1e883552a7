"""What bounds the time of a job, and what it would take if some of its parts took less.

``graph`` turns a trace into a directed acyclic graph: host threads in program order, launches, streams, waits.
``replay`` computes it again with edited durations (``edits``), ``path`` follows what decides its length, and
``scenarios`` is what the report shows.  Definitions: docs/analyses.md, "Critical path and what-if".
"""
