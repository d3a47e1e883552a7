"""What ``profsuite doctor`` says of the engine."""

from __future__ import annotations

from click.testing import CliRunner

from profsuite.cli.app import app
from profsuite.collector.cupti import engine, library


def test_doctor_says_what_is_missing(environment, monkeypatch):
    monkeypatch.setattr(engine, "available", lambda: "no NVIDIA driver (libcuda.so.1 cannot be opened)")
    said = CliRunner().invoke(app, ["doctor"]).output
    assert "cupti       not in use: no NVIDIA driver (libcuda.so.1 cannot be opened)\n" in said


def test_doctor_says_what_is_there(environment, monkeypatch, simulator_path):
    monkeypatch.setattr(engine, "available", lambda: None)
    monkeypatch.setenv("CUPTI_LIBRARY", str(simulator_path))
    library.build()
    assert engine.status() == f"compiled; uses {simulator_path}"
    monkeypatch.setattr(library, "built", lambda: None)
    assert engine.status() == f"not compiled yet (profsuite doctor --build); it will use {simulator_path}"
