"""What is replaced in a text, and what must not be."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace

import pytest

from profsuite.trace.redaction.entropy import looks_random
from profsuite.trace.redaction.redactor import Redactor
from profsuite.trace.redaction.settings import Level, Redaction

LOW, MEDIUM, HIGH = Level.LOW, Level.MEDIUM, Level.HIGH


def redacted(text: str, level: Level = MEDIUM, **settings: tuple[str, ...]) -> str:
    redactor = Redactor(Redaction(level, **settings))  # type: ignore[arg-type]
    redactor.learn([text])
    return redactor.text(text, "column")


def under(text: str, *keys: str, level: Level = MEDIUM) -> str:
    redactor = Redactor(Redaction(level))
    redactor.learn_value(text, *keys)
    return redactor.value(text, "column", *keys)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mail bob.jones@corp.example.com now", "mail email-1 now"),
        ("Bob%40corp.example.com", "email-1"),
        ("id AKIAIOSFODNN7EXAMPLE.", "id aws-key-1."),
        ("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "secret-1"),
        ("password=hunter2;", "password=secret-1;"),
        ("db_password: 'a long one'", "db_password: 'secret-1'"),
        ("--api-key abc", "--api-key secret-1"),
        ("https://me:pw@git.corp.com/a/b", "https://host-1.domain-1/path-1"),
        ("https://pytorch.org/docs/stable/index.html", "https://pytorch.org/docs/stable/index.html"),
        ("s3://bucket/data/x.csv", "s3://bucket-1/path-1"),
        ("git@github.com:corp/secret.git", "repository-1"),
        ("10.1.2.3:29500", "host-1:29500"),
        ("127.0.0.1:29500 and localhost", "127.0.0.1:29500 and localhost"),
        ("torch==2.1.0.1", "torch==2.1.0.1"),
        ("from 2001:db8:85a3::8a2e:370:7334", "from host-1"),
        ("/home/quentin/my job/train.py(88): main", "path-1/train.py(88): main"),
        ("/data/corpus/part-1.tar", "path-1/file-1.tar"),
        ("C:\\Users\\quentin\\job\\train.py(8): f", "path-1/train.py(8): f"),
        ("/opt/env/lib/python3.11/site-packages/torch/nn/a.py(3): f", "site-packages/torch/nn/a.py(3): f"),
        ("/usr/lib/python3.11/threading.py(5): run", "python3.11/threading.py(5): run"),
        ("/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so.1"),
        ("/home/quentin/a.py(1): f;/home/quentin/a.py(2): g", "path-1/a.py(1): f;path-1/a.py(2): g"),
        ("/home/quentin/x and run of quentin", "path-1/file-1 and run of user-1"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY----- x", "private-key-1 x"),
        ("5f2c9a1b3d4e5f60718293a4b5c6d7e8f9a0b1c2", "secret-1"),
        ("GPU-7c9e6679-7425-40de-944b-e07fc1f90ae7", "GPU-id-1"),
    ],
)
def test_what_is_replaced(text: str, expected: str) -> None:
    assert redacted(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "aten::_scaled_dot_product_efficient_attention",
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_13BUnaryFunctorIfffNS0_15binary_internal10MulFunctorIfEEEE",
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>(Params)",
        "Cijk_Ailk_Bljk_HHS_BH_Bias_HA_S_SAV_UserArgs_MT128x128x64_MI16x16x1_SN_LDSB1_AFC1_AFEM1_AFEM1_ASEM1_CLR1",
        "triton_poi_fused_native_layer_norm_backward_0d1d2d3d4d5d6de7de8de9de10de",
        "triton__0d1d2d3d4d5d6d7d8d9d10d11d12d13de14de",
        "## Call CompiledFxGraph fq5wd4kxhkz7ej2nmqhgv3mcaouy2f6tqkxkdbbwnbzsyv5pdrhq ##",
        "MaxPool2DWithIndicesBackward0",
        "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT",
        "sm90_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_warpgroupsize1x1x1_g1_execute",
        "nn.Module: Linear_0",
        "nvidia-cuda-cupti-cu12==12.4.127",
        "antlr4-python3-runtime==4.9.3",
        "Torch-Compiled Region: 0/0",
        "Memcpy HtoD (Pinned -> Device)",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "max_tokens=4096 token: 17 key=value",
        "3.5 GB/s, 12 MB / s",
        "layers.0.attn.net",
        "thread 4711 (pt_autograd_0)",
        "main thread",
        "autograd::engine::evaluate_function: AddmmBackward0",
    ],
)
@pytest.mark.parametrize("level", [LOW, MEDIUM])
def test_what_stays(text: str, level: Level) -> None:
    assert redacted(text, level) == text


def test_each_level_does_what_the_one_below_does() -> None:
    text = "/home/quentin/x.py of quentin@corp.example.com on node-7.corp.internal token=Zx81kd93jd72"
    low, medium = redacted(text, LOW), redacted(text, MEDIUM)
    assert low == "/home/user-1/x.py of email-1 on node-7.corp.internal token=secret-1"
    assert medium == "path-1/x.py of email-1 on host-1.domain-1 token=secret-1"
    assert redacted(text, HIGH) == medium.replace("x.py", "file-1.py")


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("password", "x", "secret-1"),
        ("wandb_key", "abcd1234efgh", "secret-1"),
        ("key", "weight", "weight"),
        ("num_tokens", "4096", "4096"),
        ("user", "quentin", "user-1"),
        ("user", "root", "root"),
        ("author", "Quentin Q. Moonshot", "user-1"),
        ("author", "quentin@corp.example.com", "email-1"),
        ("users", "a long sentence about what users do here", "a long sentence about what users do here"),
        ("hostname", "node7", "host-1"),
        ("MASTER_ADDR", "node7:29500", "host-1:29500"),
        ("node", "3", "3"),
        ("machine", "x86_64", "x86_64"),
        ("revision", "28e4563a" * 5, "28e4563a" * 5),
        ("cudnn_version", "9.1.0.70", "9.1.0.70"),
    ],
)
def test_what_a_key_says(key: str, text: str, expected: str) -> None:
    assert under(text, key) == expected
    assert under(json.dumps({key: text}), "any") == json.dumps({key: expected})


def test_json_keeps_all_but_what_is_replaced() -> None:
    text = '{ "a" : [1.50, 1e400, {"b\\u0041": "x\\/y"}],\n "env": {"USER": "quentin", "R": "3"}, "n": 1234567890123456'
    assert under(text) == text.replace('"quentin"', '"environment-1"')
    secret = '{"api_key": 12345, "nested": {"credentials": ["a", {"b": true}]}}'
    assert under(secret) == '{"api_key": "secret-1", "nested": {"credentials": ["secret-2", {"b": true}]}}'
    command = '["train.py", "--token", "abc", "--lr", "0.1", "/home/quentin/x.py"]'
    assert under(command, "command") == '["train.py", "--token", "secret-1", "--lr", "0.1", "path-1/x.py"]'
    assert under('{"a@b.example.com": 1}') == '{"email-1": 1}'


def test_a_name_is_hidden_wherever_it_stands_but_no_part_of_a_word() -> None:
    redactor = Redactor(Redaction())
    redactor.learn_value("node7.corp.internal", "hostname")
    redactor.learn(["/home/adam/x", "/home/quentin/x"])
    found = redactor.text("NODE7_1 node77 xnode7 node7.corp.internal quentin's aten::_fused_adam_", "c")
    assert found == "host-1_1 node77 xnode7 host-1.domain-1 user-1's aten::_fused_adam_"


def test_a_persons_whole_name_is_hidden_elsewhere() -> None:
    redactor = Redactor(Redaction(Level.LOW))
    redactor.learn_value('{"author": "Quentin Moonshot"}', "git")
    assert redactor.text("run by Quentin Moonshot's bot", "c") == "run by user-1's bot"


def test_files_of_the_project_are_shown_from_there() -> None:
    projects = ("/home/quentin/job",)
    assert redacted("/home/quentin/job/src/a.py(3): f", projects=projects) == "src/a.py(3): f"
    assert redacted("/home/quentin/job2/a.py(3): f", projects=projects) == "path-1/a.py(3): f"
    assert redacted("/home/quentin/job/../x/a.py(3): f", projects=projects) == "path-1/a.py(3): f"


def test_pseudonyms_are_stable_and_keyed_ones_do_not_depend_on_the_order() -> None:
    one, other = (Redactor(Redaction(key=b"k")) for _ in range(2))
    texts = ["a@x.example.com", "b@x.example.com", "/data/one/f.csv", "/data/two/f.csv"]
    forth = {text: one.text(text, "c") for text in texts}
    assert {text: other.text(text, "c") for text in reversed(texts)} == forth
    assert len(set(forth.values())) == 4
    assert Redactor(Redaction(key=b"l")).text(texts[0], "c") != forth[texts[0]]
    plain = Redactor(Redaction())
    assert [plain.text(text, "c") for text in (*texts[:2], texts[0])] == ["email-1", "email-2", "email-1"]


def test_the_report_counts_and_tells_no_secret(corpus: SimpleNamespace) -> None:
    redactor = Redactor(Redaction())
    for text in (*corpus.sentences, corpus.sentences[0]):
        redactor.text(text, "slice.name")
    said = redactor.report.dump()
    found = json.loads(said)["replaced"]
    assert found["aws-key"] == {"values": 1, "texts": {"slice.name": 1}}
    assert found["email"] == {"values": 1, "texts": {"slice.name": 2}}
    assert not [needle for needle in corpus.needles if needle in said + redactor.report.line()]
    assert redactor.report.line().startswith("redacted (medium): ")


@pytest.mark.parametrize("kind", ["aws-secret", "wandb"])
def test_keys_without_a_mark(corpus: SimpleNamespace, kind: str) -> None:
    assert looks_random(corpus.keys[kind])


PIECES = (
    "/", "/a ", "\\", "a@", "a.", "1.", "::", "a:", "a-", "_", "eyJ-", "eyJa.", "sk-",
    "-----BEGIN RSA PRIVATE KEY-----",
    "password=", "token: ", "--token ", '"', '"\\', '{"a":', "[", "(1): ", "/x.py(1): ;", "C:\\a ", "http://a@", "%40",
    "0",
    "A1b2C3d4", "node7 ", "/home/a/", "2001:", "0a:", "git@a:", "1//0", " ", "authorization: ", "x.com.", "\u0130",
)  # fmt: skip


@pytest.mark.parametrize("piece", PIECES)
def test_hostile_texts_take_time_in_proportion(piece: str) -> None:
    def seconds(length: int) -> float:
        redactor = Redactor(Redaction(Level.HIGH))
        redactor.learn_value("node7", "hostname")
        text = piece * (length // len(piece))
        before = time.process_time()
        redactor.learn([text])
        redactor.text(text, "c")
        redactor.value('["' + text, "c", "env")
        redactor.value(text, "c", "key")
        return time.process_time() - before

    # Ten times the text: ten times the time, hundred times where it went by the square.  One of some tries is enough,
    # as others may be disturbed.
    assert any(seconds(20_000) < 40 * max(seconds(2_000), 0.005) for _ in range(5))
