"""Names: safe to print, short enough to read, in time that grows with their length."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profsuite.exporters.names import LONGEST, middle, printable, shorten, shorten_all

ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"
    "(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("aten::mm", "aten::mm"),
        ("größe 行列 µ", "größe 行列 µ"),
        ("a\tb\nc", "a b c"),
        ("\x1b]0;title\x07", "\ufffd]0;title\ufffd"),
        ("\x9b31m", "\ufffd31m"),
        ("abc\u202egnp.exe", "abc\ufffdgnp.exe"),
        ("zero\u200bwidth", "zero\ufffdwidth"),
        ("line\u2028end", "line end"),
    ],
)
def test_printable(text: str, expected: str) -> None:
    assert printable(text) == expected


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (300, ADD),
        (100, "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, array<char*, 3ul> >"),
        (70, "vectorized_elementwise_kernel<4, CUDAFunctor_add<…>, array<…> >"),
        (50, "vectorized_elementwise_kernel<4, CUDAFunctor_add…>"),
        (33, "vectorized_elementwise_kernel<4…>"),
        (29, "vectorized_elementwise_kernel"),
        (20, "vectorized_e…_kernel"),
    ],
)
def test_shorten_a_template(width: int, expected: str) -> None:
    assert shorten(ADD, width) == expected


@pytest.mark.parametrize("width", [1, 10, 20, 40])
@pytest.mark.parametrize(
    "name",
    [
        "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_tn",
        "operator<(Foo const&, Bar const&, Baz const&, Qux const&)",
        "a>b>c>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>",
        "<" * 100,
        "at::native::" * 20,
    ],
)
def test_shorten_fits(name: str, width: int) -> None:
    assert len(shorten(name, width)) <= width


def test_shorten_keeps_the_function_and_drops_its_parameters() -> None:
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    assert shorten(name, 40) == "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    name = "void (anonymous namespace)::softmax_warp_forward<float, float, float, 8>(float*, float const*, int)"
    assert shorten(name, 60) == "softmax_warp_forward<float, float, float, 8>"


def test_different_names_look_different() -> None:
    names = [
        f"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize{size}_warpgroup_cublas" for size in ("128x256", "128x128")
    ]
    assert shorten(names[0], 30) == shorten(names[1], 30)
    short = shorten_all([names[0], names[1], names[0], "aten::mm"], 30)
    assert short[0] == short[2] == "sm90_xmma_gemm…8x256_warpgroup"
    assert short[1] == "sm90_xmma_gemm…8x128_warpgroup"
    assert short[3] == "aten::mm"


@pytest.mark.parametrize("width", [30, 34, 50])
def test_different_templates_are_shortened_as_templates(width: int) -> None:
    names = [
        f"void at::native::vectorized_elementwise_kernel<4, at::native::{functor}<float>, at::detail::Array<char*, 3> >"
        f"(int, at::native::{functor}<float>, at::detail::Array<char*, 3>)"
        for functor in ("AddFunctor", "threshold_kernel_impl")
    ]
    add, threshold = shorten_all(names, width)
    assert add.startswith("vectorized_")
    assert "AddFunctor<" in add or "AddFunc…" in add
    assert threshold.startswith("vectorized_")
    assert "threshold" in threshold or "thresho…" in threshold
    assert "::" not in add + threshold


@given(st.lists(st.text(alphabet="ab<>:", max_size=60), max_size=5), st.integers(1, 30))
def test_all_names_fit(names: list[str], width: int) -> None:
    short = shorten_all(names, width)
    assert len(short) == len(names)
    assert all(len(text) <= width for text in short)


def test_middle() -> None:
    assert middle("abcdefghij", 10) == "abcdefghij"
    assert middle("abcdefghij", 7) == "abcd…ij"
    assert [middle("abc", width) for width in (0, 1, 2)] == ["", "…", "…c"]


@given(st.text(max_size=200), st.integers(1, 100))
def test_shorten_is_printable_and_fits(text: str, width: int) -> None:
    short = shorten(text, width)
    assert len(short) <= width
    assert short.isprintable()


@given(st.text(alphabet="ab<>():, *", max_size=120), st.integers(1, 60))
def test_shorten_any_brackets(text: str, width: int) -> None:
    assert len(shorten(text, width)) <= width


def test_a_name_of_a_megabyte_is_cut_at_once() -> None:
    begin = time.process_time()  # a square of the length would take minutes
    for name in ("x" * 1_000_000, "a<" * 500_000, "::" * 500_000, "(" * 1_000_000):
        assert len(shorten(name, 60)) <= 60
        assert len(printable(name)) <= LONGEST
    assert time.process_time() - begin < 10
