"""The report as Markdown."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from profsuite.analyzers.report import Report
from profsuite.exporters import markdown


def parse(text: str) -> list[Token]:
    """Every token, those inside of others included."""
    tokens: list[Token] = []
    for token in MarkdownIt("commonmark", {"html": True, "linkify": False}).enable("table").parse(text):
        tokens += [token, *(token.children or ())]
    return tokens


def test_hostile_names_are_text(report: Report) -> None:
    source = "[x](javascript:alert(1)) <img src=x> ![y](z) @team #12 https://x.y **b** | `"
    tokens = parse(markdown.render(msgspec.structs.replace(report, source=source, verdict=source)))
    kinds = {token.type for token in tokens}
    assert not kinds & {"html_block", "html_inline", "image", "link_open", "fence", "code_block"}
    assert "".join(token.content for token in tokens if token.type == "text").count(source) == 2


def test_no_mention_reference_or_bare_link(report: Report) -> None:
    text = markdown.render(msgspec.structs.replace(report, verdict="@team #12 https://x.y www.x.y"))
    outside_code = re.sub(r"(`+).*?\1", "", text)
    assert not re.search(r"@\w", outside_code)
    assert not re.search(r"(?<!&)#\d", outside_code)
    assert "https:" not in outside_code


@pytest.mark.parametrize(
    "text",
    [
        "3 more: rank_0 (29 % of the time) takes 5.5 ms; --full shows all, +1 -2 a=b c>d {x} e! #, @, A & B",
        "5.5 ms, -1",
        "-1, 2",
        "train.py(88): train_step, op aten::mm, 1.5 GB",
        "runs/resnet-50/rank_0.json.gz",
    ],
)
def test_nothing_is_escaped_without_need(text: str) -> None:
    assert markdown.escape(text) == text


@given(st.text(alphabet="ab1 \\`*_{}[]()#+!|<>~&$@:-=.;/", max_size=30))
@example("_a_ __b__ *c* ~d~ $e$ [f](g) <b> &lt; &#35;")
@example("- a")
@example("1. a")
@example("12) a")
@example("1234. a")
@example("+")
@example("# a")
@example("---")
def test_escaped_text_reads_as_it_is(text: str) -> None:
    text = " ".join(text.split())
    tokens = parse(markdown.escape(text))
    assert {token.type for token in tokens} <= {
        "paragraph_open",
        "paragraph_close",
        "inline",
        "text",
        "text_special",
    }
    assert "".join(token.content for token in tokens if token.type != "inline") == text


def test_every_table_has_cells_for_its_columns(report: Report) -> None:
    text = markdown.render(report)
    tokens = parse(text)
    rows: list[int] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append(0)
        elif token.type in ("td_open", "th_open"):
            rows[-1] += 1
    assert sum(token.type == "table_open" for token in tokens) == 11
    assert set(rows) == {3, 4, 5, 7, 8, 9, 11}
    for block in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(widths) == 1, block


@pytest.mark.parametrize("text", ["plain", "a`b", "``", "`x`", " ", "a|b", "x" * 10])
def test_code(text: str) -> None:
    inline = [token for token in parse(markdown.code(text).replace("\\|", "|")) if token.type == "code_inline"]
    assert len(inline) == 1
    assert inline[0].content.strip() == text.strip()


def test_ranks(report: Report, bare: Report) -> None:
    text = markdown.render_ranks([report, bare])
    assert text.startswith("# 2 traces\n")
    assert text.count("\n## ") == 1
    assert markdown.render_ranks([report, bare], full=True).count("\n## ") == 2
