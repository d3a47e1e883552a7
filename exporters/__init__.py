"""Exporters: one format a file.

Those of a report are ``render(report) -> str``: they read a finished ``Report`` and compute nothing of their
own.  Those of a trace are listed in ``profsuite.exporters.formats``.  Names that come from a trace are treated
as hostile: see ``profsuite.exporters.names``.
"""
