"""FLOPs of real calls are those of torch's own counter, op by op and for whole models."""

from __future__ import annotations

import pytest

from profsuite.analyzers.costs import MATRIX_KINDS

torch = pytest.importorskip("torch")
functional = torch.nn.functional

ROOFLINE = ("forward_flops", "backward_flops", "flops")


def tensor(*shape, dtype=None, grad=False):
    return torch.randn(*shape).to(dtype or torch.float32).requires_grad_(grad)


def half(*shape):
    return tensor(*shape, dtype=torch.bfloat16)


CALLS = {
    "mm": lambda: tensor(7, 5) @ tensor(5, 3),
    "mm in bf16": lambda: half(7, 5) @ half(5, 3),
    "addmm": lambda: torch.addmm(tensor(3), tensor(7, 5), tensor(5, 3)),
    "bmm": lambda: torch.bmm(tensor(4, 7, 5), tensor(4, 5, 3)),
    "baddbmm": lambda: torch.baddbmm(tensor(4, 7, 3), tensor(4, 7, 5), tensor(4, 5, 3)),
    "linear": lambda: functional.linear(tensor(2, 7, 5), tensor(3, 5), tensor(3)),
    "linear without bias": lambda: functional.linear(tensor(2, 7, 5), tensor(3, 5)),
    "matmul of four dimensions": lambda: tensor(2, 4, 7, 5) @ tensor(2, 4, 5, 3),
    "matmul that broadcasts": lambda: tensor(2, 4, 7, 5) @ tensor(4, 5, 3),
    "matmul with a matrix": lambda: tensor(2, 4, 7, 5) @ tensor(5, 3),
    "einsum": lambda: torch.einsum("bij,bjk->bik", tensor(4, 7, 5), tensor(4, 5, 3)),
    "conv1d": lambda: functional.conv1d(tensor(2, 4, 15), tensor(6, 4, 3), stride=2),
    "conv2d": lambda: functional.conv2d(tensor(2, 4, 9, 8), tensor(6, 4, 3, 2), tensor(6), padding=1),
    "conv2d, strided, dilated, in groups": lambda: functional.conv2d(
        tensor(2, 4, 19, 18), tensor(6, 2, 3, 3), stride=2, padding=(2, 1), dilation=2, groups=2
    ),
    "conv2d, same": lambda: functional.conv2d(tensor(2, 4, 9, 8), tensor(6, 4, 3, 3), padding="same"),
    "conv3d": lambda: functional.conv3d(tensor(1, 2, 5, 6, 7), tensor(3, 2, 2, 2, 2)),
    "conv of no batch": lambda: functional.conv2d(tensor(4, 9, 8), tensor(6, 4, 3, 2)),
    "conv_transpose1d": lambda: functional.conv_transpose1d(tensor(2, 4, 9), tensor(4, 6, 3), stride=2),
    "conv_transpose2d": lambda: functional.conv_transpose2d(
        tensor(2, 4, 9, 8), tensor(4, 3, 3, 3), stride=2, padding=1, output_padding=1, groups=2
    ),
    "conv_transpose3d": lambda: functional.conv_transpose3d(tensor(1, 2, 3, 4, 5), tensor(2, 3, 2, 2, 2)),
    "conv2d in bf16": lambda: functional.conv2d(half(2, 4, 9, 8), half(6, 4, 3, 3)),
}

BACKWARD = {
    "mm": lambda: tensor(7, 5, grad=True) @ tensor(5, 3, grad=True),
    "one factor": lambda: tensor(7, 5, grad=True) @ tensor(5, 3),
    "linear": lambda: functional.linear(tensor(2, 7, 5, grad=True), tensor(3, 5, grad=True), tensor(3, grad=True)),
    "matmul": lambda: tensor(2, 4, 7, 5, grad=True) @ tensor(4, 5, 3, grad=True),
    "conv1d": lambda: functional.conv1d(tensor(2, 4, 15, grad=True), tensor(6, 4, 3, grad=True)),
    "conv2d": lambda: functional.conv2d(
        tensor(2, 4, 19, 18, grad=True), tensor(6, 4, 3, 3, grad=True), tensor(6, grad=True), stride=2, dilation=2
    ),
    "conv2d of data": lambda: functional.conv2d(tensor(2, 4, 9, 8), tensor(6, 4, 3, 3, grad=True)),
    "conv3d": lambda: functional.conv3d(tensor(1, 2, 5, 6, 7, grad=True), tensor(3, 2, 2, 2, 2, grad=True)),
    "conv_transpose2d": lambda: functional.conv_transpose2d(
        tensor(2, 4, 9, 8, grad=True), tensor(4, 3, 3, 3, grad=True), stride=2
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_forward(recorded, counted, name):
    expected = counted(CALLS[name])
    assert expected > 0
    roofline = recorded(CALLS[name]).roofline
    assert [getattr(roofline, each) for each in ROOFLINE] == [expected, None, expected]


@pytest.mark.parametrize("name", BACKWARD)
def test_backward(recorded, counted, name):
    def both():
        BACKWARD[name]().sum().backward()

    forward, total = counted(BACKWARD[name]), counted(both)
    roofline = recorded(both).roofline
    assert [getattr(roofline, each) for each in ROOFLINE] == [forward, total - forward, total]


def test_the_weights_gradient_of_a_grouped_convolution_is_counted_once(recorded, counted):
    # FlopCounterMode counts it once a group: 2 x 3 x 5 x 5 positions x 4 x (4 / 2) x 3 x 3 weights, and twice that.
    def both():
        x, weight = tensor(3, 4, 7, 7, grad=True), tensor(4, 2, 3, 3, grad=True)
        functional.conv2d(x, weight, groups=2).sum().backward()

    forward = 2 * 3 * 5 * 5 * 4 * 2 * 3 * 3
    roofline = recorded(both).roofline
    assert (roofline.forward_flops, roofline.backward_flops) == (forward, 2 * forward)
    assert counted(both) == 4 * forward


def attention(**arguments):
    q, k, v = (tensor(2, 4, 6, 16, grad=True) for _ in range(3))
    return functional.scaled_dot_product_attention(q, k, v, **arguments)


def test_attention_without_a_fused_kernel(recorded, counted):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def both():
        with sdpa_kernel(SDPBackend.MATH):
            attention(is_causal=True).sum().backward()

    assert recorded(both).roofline.flops == counted(both)


def test_fused_attention_counts_what_torch_counts_of_the_same_on_a_gpu(recorded):
    # FlopCounterMode does not know the CPU's kernel; the formula for the GPU's is called directly.
    from torch.utils.flop_counter import sdpa_backward_flop_count, sdpa_flop_count

    shape = (2, 4, 6, 16)
    roofline = recorded(lambda: attention().sum().backward()).roofline
    assert roofline.forward_flops == sdpa_flop_count(shape, shape, shape)
    assert roofline.backward_flops == sdpa_backward_flop_count(shape, shape, shape, shape)


def test_autocast_counts_the_call_in_lower_precision_once(recorded, counted):
    layer, x = torch.nn.Linear(5, 3), tensor(7, 5)

    def work():
        with torch.autocast("cpu", torch.bfloat16):
            layer(x)

    analysis = recorded(work)
    assert analysis.roofline.flops == counted(work) == 2 * 7 * 5 * 3
    (row,) = [op for op in analysis.roofline_ops if op.kind in MATRIX_KINDS]
    assert row.attained.dtype == "bf16"


def models():
    """Small models of the usual architectures: (name, model, inputs)."""
    transformers = pytest.importorskip("transformers")
    text = {"input_ids": torch.randint(0, 50, (2, 9))}
    picture = {"pixel_values": torch.randn(2, 3, 32, 32)}
    heads = {"num_attention_heads": 4, "num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 48}
    gpt = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=50, n_positions=16)
    bert = transformers.BertConfig(vocab_size=50, **heads)
    vit = transformers.ViTConfig(image_size=32, patch_size=8, **heads)
    llama = transformers.LlamaConfig(vocab_size=50, num_key_value_heads=2, **heads)
    resnet = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[16, 24, 32, 40], depths=[2, 1, 1, 1])
    for config in (gpt, bert, vit, llama):
        config._attn_implementation = "eager"
    yield "gpt2", transformers.GPT2LMHeadModel(gpt), text | {"labels": text["input_ids"]}
    yield "bert", transformers.BertForSequenceClassification(bert), text | {"labels": torch.tensor([0, 1])}
    yield "llama", transformers.LlamaForCausalLM(llama), text | {"labels": text["input_ids"]}
    yield "resnet", transformers.ResNetForImageClassification(resnet), picture | {"labels": torch.tensor([0, 1])}
    yield "vit", transformers.ViTForImageClassification(vit), picture | {"labels": torch.tensor([0, 1])}


@pytest.fixture(scope="module")
def small_models():
    return {name: (model, inputs) for name, model, inputs in models()}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["gpt2", "bert", "llama", "resnet", "vit"])
def test_models_forward_and_backward(recorded, counted, small_models, name):
    model, inputs = small_models[name]

    def forward():
        with torch.no_grad():
            model(**inputs)

    def step():
        model.zero_grad()
        model(**inputs).loss.backward()

    ahead, both = counted(forward), counted(step)
    assert recorded(forward).roofline.flops == ahead
    roofline = recorded(step).roofline
    assert [getattr(roofline, each) for each in ROOFLINE] == [ahead, both - ahead, both]
