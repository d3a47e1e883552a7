"""Findings in words: numbers read as everywhere else, and other findings by their place in the list."""

from __future__ import annotations

import re
from fractions import Fraction

from msgspec.structs import replace

from profsuite.analyzers.base import Evidence, Finding, Place
from profsuite.analyzers.findings.wording import most, share
from profsuite.analyzers.findings.wording import percent as of_fraction
from profsuite.exporters import markdown, text
from profsuite.exporters.sections.advice import advice_on
from profsuite.exporters.units import count, percent


def finding(kind, *evidence, counted_in=(), cost_ns=2_000_000):
    return Finding(
        id=kind,
        title=kind.replace("_", " ").capitalize(),
        severity="warning",
        evidence=evidence,
        where=Place(),
        remedy="Do this.",
        cost_ns=cost_ns,
        counted_in=counted_in,
    )


def test_a_share_is_rounded_once():
    """8.952 to two digits is 8.95, and that to one is 8.9 (in binary): rounded once it is 9.0."""
    exact = share("share", 0.08952)
    assert exact.value == 100 * 0.08952
    assert advice_on(finding("a", exact), "recording").seen == ("share 9.0 %",)
    assert of_fraction(0.08952) == percent(8.952) == "9.0 %"
    assert of_fraction(0.01747) == percent(1.747) == "1.7 %"


def test_two_ways_to_compute_a_share_read_alike():
    for whole in (2000, 4000, 6000):
        for part in range(1, whole // 10):
            exact = Fraction(100 * part, whole)
            if exact >= Fraction(1, 20):
                assert percent(100 * part / whole) == percent(100 * (part / whole)) == of_fraction(part / whole)


def test_what_is_not_all_is_not_shown_as_all():
    assert of_fraction(0.9951) == percent(99.51) == "99.5 %"
    assert of_fraction(0.99951) == percent(99.951) == ">99.9 %"
    assert of_fraction(0.9949) == "99 %"
    assert of_fraction(1.0) == "100 %"
    assert of_fraction(0.0996) == percent(9.96) == "10.0 %"


def test_only_more_than_half_is_most():
    assert [most(part, 100) for part in (51, 50, 27)] == ["most", "the largest part", "the largest part"]


def test_fractions_of_large_counts():
    assert [count(value) for value in (3.14159, 999.96, 1500.25, 12345.67)] == ["3.142", "1,000", "1,500", "12,346"]


def test_time_a_step_has_the_unit_it_has_elsewhere():
    seen = Evidence(label="lost", value=0.4394, unit="ms per step")
    assert advice_on(finding("a", seen), "recording").seen == ("lost 439.4 µs per step",)


def test_others_are_named_by_their_numbers(report):
    found = (
        finding("host_bound", counted_in=("input_bound", "late_prefetch")),
        finding("small_kernels", counted_in=("host_bound",)),
        finding("input_bound"),
        finding("late_prefetch"),
    )
    both = advice_on(found[0], "recording", found)
    assert both.cost == "2.000 ms in this recording (some of it counted by findings 3 and 4 too)"
    assert advice_on(found[1], "recording", found).cost.endswith("(some of it counted by finding 1 too)")
    assert advice_on(found[2], "recording", found).cost == "2.000 ms in this recording"
    whole = replace(report, findings=found)
    for written in (text.render(whole), markdown.render(whole)):
        assert not re.search("host_bound|input_bound|late_prefetch", written)
        assert "4. " in written
