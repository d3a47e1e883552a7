"""Readers: one file a format, each from bytes to a ``RawTrace``."""
