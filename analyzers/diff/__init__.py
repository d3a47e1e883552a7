"""What changed between two recordings: ``diff(before, after)`` gives a ``DiffReport``."""
