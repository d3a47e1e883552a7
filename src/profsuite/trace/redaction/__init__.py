"""Redaction: a trace without secrets, names of people and machines, and paths, before anything is written of it.

``settings`` says what is wanted, ``secrets``, ``entropy``, ``addresses``, ``paths`` and ``names`` know what gives
something away, ``redactor`` applies them to texts, ``tables`` to traces and what else is read, ``opt_out`` removes
what a user names, ``report`` counts.
"""
