"""What the dashboard may show: what is below the given roots and nothing else."""

from __future__ import annotations

import pytest

pytest.importorskip("dash", reason="the dashboard is not installed")

from profsuite.dashboard.catalog import Catalog
from profsuite.errors import TraceError


def names(catalog):
    return sorted(entry.name for entry in catalog.entries.values())


def test_a_folder_and_a_file(folder):
    assert names(Catalog([folder])) == ["job.json"]
    assert names(Catalog([folder / "job.json"])) == ["job.json"]


def test_the_same_name_below_several_roots(folder, tmp_path):
    for place in ("a/x", "b/x", "b/y"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "rank_0.json").write_text('{"traceEvents": []}')
    files = [tmp_path / place / "rank_0.json" for place in ("a/x", "b/x", "b/y")]
    assert names(Catalog(files)) == ["a/x/rank_0.json", "b/x/rank_0.json", "y/rank_0.json"]
    assert names(Catalog([*files[:1], folder])) == ["job.json", "rank_0.json"]


def test_links_that_lead_out_are_not_there(folder, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "rank_7.json").write_text('{"traceEvents": []}')
    (folder / "rank_1.json").symlink_to(outside / "rank_7.json")
    (folder / "linked").symlink_to(outside)
    (folder / "rank_2.json").symlink_to(folder / "job.json")
    catalog = Catalog([folder])
    assert names(catalog) == ["job.json"]
    assert all(entry.path.is_relative_to(folder) for entry in catalog.entries.values())


def test_a_root_may_be_a_link(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    assert names(Catalog([tmp_path / "link"])) == ["job.json"]


def test_what_is_written_later_shows_up(folder):
    catalog = Catalog([folder])
    (folder / "rank_3.json").write_text('{"traceEvents": []}')
    catalog.refresh()
    assert names(catalog) == ["job.json", "rank_3.json"]


def test_ranks_of_a_job(tmp_path):
    for rank in (1, 0, 2):
        (tmp_path / f"rank_{rank}.json").write_text('{"traceEvents": []}')
    catalog = Catalog([tmp_path])
    first = next(iter(catalog.entries.values()))
    assert [entry.rank for entry in catalog.job(first)] == [0, 1, 2]


def test_nothing_there(tmp_path):
    with pytest.raises(TraceError):
        Catalog([tmp_path])


def test_a_root_that_does_not_exist(tmp_path):
    with pytest.raises(TraceError, match=r"nope\.json: no such file or folder"):
        Catalog([tmp_path / "nope.json"])


def test_keys_say_nothing(folder):
    (key,) = Catalog([folder]).entries
    assert len(key) == 16
    assert int(key, 16) >= 0
