"""Shape rules at other sizes than those they ran at: what they foretell, and which sizes their guards let pass.

By default a quick selection of torch's operator samples. `SYMSHAPES_WIDE=1` takes all operators (minutes); what the guards keep
out (`narrow`) and what eager alone rejects (`rejected`) is printed then, and is no failure.
"""

import itertools
import os
import random
import warnings

import pytest
import torch
from torch.nn import functional as F

from symshapes import DimPolicy

from .symbolic_oracle import Symbolic

WIDE = os.environ.get("SYMSHAPES_WIDE") == "1"
QUICK = {
    "cat", "stack", "reshape", "expand", "slice", "diagonal", "diag_embed", "block_diag", "kron", "take_along_dim",
    "tensor_split", "chunk", "unfold", "roll", "gather", "cdist", "linalg.svd", "linalg.qr", "linalg.solve", "linalg.cross",
    "fft.rfftn", "fft.hfft2", "fft.fft2", "nn.functional.interpolate", "nn.functional.max_pool2d", "nn.functional.max_pool1d",
    "nn.functional.avg_pool2d", "nn.functional.max_unpool2d", "nn.functional.conv2d",
    "nn.functional.layer_norm", "nn.functional.pad", "nn.functional.bilinear", "special.laguerre_polynomial_l",
}  # fmt: skip
# What eager demands of sizes is a guard: no sizes that it rejects pass.
DEMANDING = {
    "addmv", "addbmm", "nn.functional.conv2d", "native_layer_norm", "native_group_norm", "nn.functional.cross_entropy",
    "nn.functional.nll_loss", "nn.functional.binary_cross_entropy_with_logits", "dist", "nn.functional.pad",
    "nn.functional.grid_sample", "nn.functional.pixel_shuffle", "nn.functional.pixel_unshuffle", "nn.functional.channel_shuffle",
    "select_scatter", "slice_scatter", "diagonal_scatter", "gather", "scatter", "scatter_add", "scatter_reduce", "index_copy",
    "index_put", "searchsorted", "_softmax_backward_data",
}  # fmt: skip
# Samples that eager computes on in ways that cannot be repeated at other sizes: places of elements out of data.
UNSAFE = {"lu_unpack"}


def _operators():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db

        return [op for op in op_db if (WIDE or op.name in QUICK | DEMANDING) and op.name not in UNSAFE]


def test_foretold_sizes_are_right_at_other_sizes():
    wrong = []
    checked = 0
    for op in _operators():
        if not op.supports_dtype(torch.float32, "cpu"):
            continue
        samples = list(itertools.islice(op.sample_inputs("cpu", torch.float32, requires_grad=False), 60))
        random.Random(0).shuffle(samples)
        for sample in samples[: 6 if WIDE else 1]:
            found = Symbolic(lambda i, a, k, op=op: op(i, *a, **k), (sample.input, sample.args, dict(sample.kwargs)))
            checked += 1
            for finding in found.check(tries=6 if WIDE else 2):
                if finding.kind in ("wrong", "raises") or _is_demand(op, finding):
                    wrong.append(f"{op.name} {finding.kind}: {finding.text}")
                elif WIDE:
                    print(f"{op.name} {finding.kind}: {finding.text}")
    assert checked > 30
    assert not wrong, "\n".join(wrong)


def _is_demand(op, finding):
    # Places beyond the elements are in the data.
    return finding.kind == "rejected" and op.name in DEMANDING and "out of bounds" not in finding.text


def _cells(cell):
    return lambda x: cell(x[:, 0])


aten = torch.ops.aten
# What aotgrad makes of random numbers that are drawn in place.
DRAWS = [
    aten.uniform, aten.normal_functional, aten.random, lambda x: aten.random.to(x, 5), aten.exponential, aten.cauchy,
    lambda x: getattr(aten.random, "from")(x, 1, 5), lambda x: aten.bernoulli.Tensor(x, x.sigmoid()), aten.log_normal,
    lambda x: aten.geometric(x, 0.5),
]  # fmt: skip


# (a program, the size of its input): no guard is to hang on the sizes.
FREE = {
    "interpolate by a scale": (lambda x: F.interpolate(x, scale_factor=1.7), (3, 2, 5, 6)),
    "interpolate by a whole scale": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (3, 2, 5, 6)),
    "interpolate to a size": (
        lambda x: F.interpolate(x, (x.shape[2] * 2, x.shape[3] // 2), mode="bicubic"),
        (3, 2, 5, 6),
    ),
    "max_pool in ceil mode": (lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), (3, 2, 5, 6)),
    "avg_pool in ceil mode": (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), (3, 2, 5, 6)),
    "max_pool1d": (lambda x: F.max_pool1d(x, 2, 2, 1), (3, 2, 5)),
    "computed places": (lambda x: x[:, [0, x.shape[1] // 2, x.shape[1] - 1]], (3, 5)),
    "kron": (lambda x: torch.kron(x, x), (3, 5)),
    "take_along_dim": (lambda x: torch.take_along_dim(x, x.argsort(1), 1), (3, 5)),
    "tensor_split": (lambda x: torch.tensor_split(x, 2, 1), (3, 5)),
    "gru cell": (_cells(torch.nn.GRUCell(5, 4)), (3, 2, 5)),
    "lstm cell": (_cells(torch.nn.LSTMCell(5, 4)), (3, 2, 5)),
    "rnn cell": (_cells(torch.nn.RNNCell(5, 4)), (3, 2, 5)),
    "diag_embed": (torch.diag_embed, (3, 5)),
    "fft": (torch.fft.fft2, (3, 5)),
    "rfft and back": (lambda x: torch.fft.irfft(torch.fft.rfft(x), n=x.shape[1]), (3, 5)),
    "svd": (lambda x: torch.linalg.svd(x, full_matrices=False), (3, 5)),
    "solve": (lambda x: torch.linalg.solve(x @ x.mT + torch.eye(x.shape[0]), x), (3, 5)),
    "cdist": (lambda x: torch.cdist(x, x), (3, 5)),
    "all are true": (lambda x: (torch._is_all_true(x > 0), torch._is_any_true(x > 0)), (3, 5)),
    "gradients of samples of an image": (
        lambda x: aten.grid_sampler_2d_backward(
            x, x, x.new_ones(x.shape[0], *x.shape[2:], 2), 0, 0, False, [True, True]
        ),
        (2, 3, 4, 5),
    ),
    "gradients of what a mask takes": (lambda x: aten.masked_scatter_backward(x, x > 0, x.shape), (3, 5)),
    "draws": (lambda x: [draw(x.t()) for draw in DRAWS], (3, 5)),
    "gradients of samples": (
        lambda x: aten._standard_gamma_grad(x.exp(), x.exp()) + aten._dirichlet_grad(x.sigmoid(), x.exp(), x.exp()),
        (3, 5),
    ),
}


@pytest.mark.parametrize("name", FREE)
def test_all_sizes_pass(name):
    program, size = FREE[name]
    run = Symbolic(program, (torch.randn(size),))
    assert run.check(tries=4) == []
    fixed = {one.source for one in run.env.specializations()}
    assert fixed <= ({"t0.size(2)"} if "cell" in name else set())


# What size of 1 lies how: programs that lay out, view or broadcast.
OPENED = {
    "reshape of the transposed": (lambda x: x.t().reshape(5, -1), (5, 25)),
    "views of a copy": (lambda x: x.transpose(0, 2).contiguous().view(x.shape[2], -1), (3, 4, 5)),
    "sums of layouts": (lambda x: (x + x.transpose(0, 1).contiguous().transpose(0, 1)).mT, (3, 4, 5)),
    "broadcast": (lambda x: x[:1] * x[:, :1] + x.sum(0), (3, 4)),
    "channels-last": (
        lambda x: F.max_pool2d(x.contiguous(memory_format=torch.channels_last) * 2, 2, 1, 1),
        (2, 3, 4, 5),
    ),
    "joined": (lambda x: torch.cat([x.mT, x.mT], 1).flatten(1), (3, 4, 5)),
    "products": (lambda x: x.transpose(0, 1) @ x.permute(1, 2, 0), (3, 4, 5)),
    "rows by places": (lambda x: x.mT[torch.arange(2), :, torch.arange(2)], (2, 4, 5)),
}


@pytest.mark.parametrize("name", OPENED)
def test_sizes_that_may_be_one(name):
    program, size = OPENED[name]
    found = Symbolic(program, (torch.randn(size),), policy=DimPolicy.OPEN).check(tries=6)
    assert [finding for finding in found if finding.kind in ("wrong", "raises")] == []


def test_alternatives_among_other_guards_are_one_condition():
    run = Symbolic(lambda x: x.t().reshape(5, -1, 5), (torch.randn(5, 25),))
    run.check(tries=0)
    code = run.env.produce_guard_code()
    assert any(" or " in part.local for part in code.parts)
    namespace = {}
    exec(code.source, namespace)
    assert namespace["check"](*(run.env.hints[run.named()[source]] for source in code.arguments))
    assert not any(namespace["check"](5, n) or namespace["check"](n, 25) for n in (2, 7))
