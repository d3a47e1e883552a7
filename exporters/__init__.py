"""Exporters: one format a file, each ``render(report) -> str``.

They read a finished ``Report`` and compute nothing of their own.  Names that come from a trace are
treated as hostile: see ``profsuite.exporters.names``.
"""
