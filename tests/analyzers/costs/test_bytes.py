"""Bytes of real calls: what is read are the inputs, what is written is what torch gives back."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
functional = torch.nn.functional


def tensor(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype)


def whole(*shape):
    return torch.randint(0, 5, shape)


X, Y = tensor(6, 10), tensor(6, 10)
COLUMN, HALF = tensor(6, 1), tensor(6, 10, dtype=torch.bfloat16)
IMAGE, CHANNELS = tensor(2, 4, 8, 8), tensor(4)
RANDOM = {"aten::native_dropout"}

# op: (its inputs that are read, the call); what it gives back is what is written
CALLS = {
    "aten::mm": ((X, Y.t()), lambda: torch.mm(X, Y.t())),
    "aten::bmm": ((IMAGE[0], IMAGE[1]), lambda: torch.bmm(IMAGE[0], IMAGE[1])),
    "aten::addmm": ((X, COLUMN, Y[:1]), lambda: torch.addmm(X, COLUMN, Y[:1])),
    "aten::mv": ((X, Y[0]), lambda: torch.mv(X, Y[0])),
    "aten::dot": ((X[0], Y[0]), lambda: torch.dot(X[0], Y[0])),
    "aten::convolution": ((IMAGE, IMAGE[:, :, :3, :3]), lambda: torch.conv2d(IMAGE, IMAGE[:, :, :3, :3].contiguous())),
    "aten::native_layer_norm": ((X, Y[0], Y[1]), lambda: torch.native_layer_norm(X, [10], Y[0], Y[1], 1e-5)),
    "aten::native_group_norm": (
        (IMAGE, CHANNELS, CHANNELS), lambda: torch.native_group_norm(IMAGE, CHANNELS, CHANNELS, 2, 4, 64, 2, 1e-5),
    ),
    "aten::relu": ((X,), lambda: torch.relu(X)),
    "aten::exp": ((HALF,), lambda: torch.exp(HALF)),
    "aten::add": ((X, COLUMN), lambda: X + COLUMN),
    "aten::mul": ((X, HALF), lambda: X * HALF),
    "aten::sub": ((COLUMN, Y[:1]), lambda: COLUMN - Y[:1]),
    "aten::div": ((HALF,), lambda: HALF / 3),
    "aten::eq": ((X, Y), lambda: X == Y),
    "aten::addcmul": ((X, Y, Y), lambda: torch.addcmul(X, Y, Y)),
    "aten::where": ((X > 0, X, Y), lambda: torch.where(X > 0, X, Y)),
    "aten::native_dropout": ((X,), lambda: torch.native_dropout(X, 0.5, True)),
    "aten::sum": ((X,), lambda: X.sum(1, keepdim=True)),
    "aten::mean": ((HALF,), lambda: HALF.mean()),
    "aten::amax": ((IMAGE,), lambda: IMAGE.amax((1, -1))),
    "aten::max": ((X,), lambda: X.max(0)),
    "aten::argmax": ((X,), lambda: X.argmax(1)),
    "aten::any": ((X > 0,), lambda: (X > 0).any()),
    "aten::linalg_vector_norm": ((X,), lambda: torch.linalg.vector_norm(X, dim=1)),
    "aten::var": ((X,), lambda: X.var(1)),
    "aten::var_mean": ((X,), lambda: torch.var_mean(X, 1)),
    "aten::cumsum": ((whole(6, 4).int(),), lambda: whole(6, 4).int().cumsum(0)),
    "aten::max_pool2d_with_indices": ((IMAGE,), lambda: functional.max_pool2d(IMAGE, 3, 2, 1, return_indices=True)),
    "aten::_softmax": ((X,), lambda: X.softmax(-1)),
    "aten::_log_softmax": ((HALF,), lambda: HALF.log_softmax(-1)),
    "aten::mse_loss": ((X, Y), lambda: functional.mse_loss(X, Y)),
    "aten::smooth_l1_loss": ((X, Y), lambda: functional.smooth_l1_loss(X, Y, reduction="none")),
    "aten::clone": ((X,), lambda: X.clone()),
    "aten::_to_copy": ((X,), lambda: X.to(torch.bfloat16)),
    "aten::repeat": ((X,), lambda: X.repeat(2, 3)),
    "aten::constant_pad_nd": ((X,), lambda: functional.pad(X, (1, 2, 0, 3))),
    "aten::_int_mm": (
        (whole(8, 16).to(torch.int8), whole(16, 8).to(torch.int8)),
        lambda: torch._int_mm(whole(8, 16).to(torch.int8), whole(16, 8).to(torch.int8)),
    ),
}  # fmt: skip


def outputs(result):
    return sum(each.nbytes for each in (result if isinstance(result, tuple) else (result,)))


@pytest.mark.parametrize("name", CALLS)
def test_inputs_are_read_and_results_written_once(priced, name):
    inputs, call = CALLS[name]
    found = [cost for op, cost in priced(call) if op == name]
    assert len(found) == 1
    assert found[0].bytes_read == sum(each.nbytes for each in inputs)
    assert found[0].bytes_written == outputs(call())


def test_what_strides_repeat_is_read_once(priced):
    (cost,) = [cost for op, cost in priced(lambda: torch.relu(COLUMN.expand(6, 1000))) if op == "aten::relu"]
    assert (cost.bytes_read, cost.bytes_written) == (6 * 4, 6 * 1000 * 4)


def test_in_place_reads_and_writes_the_same(priced):
    def work():
        x = torch.empty(6, 10, dtype=torch.bfloat16)
        x.add_(Y)
        x.zero_()

    costs = dict(priced(work))
    assert (costs["aten::add_"].bytes_read, costs["aten::add_"].bytes_written) == (60 * 2 + 60 * 4, 60 * 2)
    assert (costs["aten::zero_"].bytes_read, costs["aten::zero_"].bytes_written) == (0, 60 * 2)


def test_embedding(priced):
    table, indices = tensor(100, 8), torch.tensor([[1, 5, 5], [0, 99, 2]])
    table.requires_grad_()
    costs = dict(priced(lambda: functional.embedding(indices, table).sum().backward()))
    look_up, back = costs["aten::embedding"], costs["aten::embedding_dense_backward"]
    assert (look_up.flops, look_up.bytes_read, look_up.bytes_written) == (0, 6 * 8 * 4 + 6 * 8, 6 * 8 * 4)
    # The gradient of a sum is one number, repeated by strides of 0.
    assert (back.flops, back.bytes_read, back.bytes_written) == (6 * 8, 4 + 6 * 8, 100 * 8 * 4)


def test_embedding_bag(priced):
    table, indices, offsets = tensor(100, 8), torch.tensor([1, 5, 5, 0]), torch.tensor([0, 3])
    costs = dict(priced(lambda: functional.embedding_bag(indices, table, offsets, mode="sum")))
    bag = next(cost for op, cost in costs.items() if op.startswith("aten::_embedding_bag"))
    assert (bag.flops, bag.bytes_read, bag.bytes_written) == (4 * 8, 4 * 8 * 4 + 4 * 8 + 2 * 8, 2 * 8 * 4)


def test_cross_entropy(priced):
    logits, target = tensor(4, 5).requires_grad_(), torch.tensor([0, 1, 2, 3])
    costs = dict(priced(lambda: functional.cross_entropy(logits, target).backward()))
    loss, back = costs["aten::nll_loss_forward"], costs["aten::nll_loss_backward"]
    assert (loss.flops, loss.bytes_read, loss.bytes_written) == (4, 4 * 8 + 4 * 4, 2 * 4)
    assert (back.flops, back.bytes_read, back.bytes_written) == (4, 4 + 4 * 8, 4 * 5 * 4)
    assert costs["aten::_log_softmax"].flops == 5 * 20
    assert costs["aten::_log_softmax_backward_data"].flops == 4 * 20


def test_batch_norm(priced):
    norm = torch.nn.BatchNorm2d(4)
    costs = [cost for op, cost in priced(lambda: norm(IMAGE)) if op == "aten::native_batch_norm"]
    (cost,) = costs
    # Weight, bias and running statistics are read; new and saved statistics are written.
    assert (cost.flops, cost.bytes_read, cost.bytes_written) == (7 * 512, 512 * 4 + 4 * 16, 512 * 4 + 4 * 16)


def test_layer_norm_backward(priced):
    x, weight, bias = X.clone().requires_grad_(), Y[0].clone().requires_grad_(), Y[1].clone().requires_grad_()
    costs = dict(priced(lambda: (functional.layer_norm(x, (10,), weight, bias) * Y).sum().backward()))
    cost = costs["aten::native_layer_norm_backward"]
    assert (cost.flops, cost.bytes_read, cost.bytes_written) == (13 * 60, 2 * 240 + 2 * 6 * 4 + 40, 240 + 2 * 40)
