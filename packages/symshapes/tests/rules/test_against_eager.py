"""Shape rules against eager kernels, over torch's own operator samples in several memory layouts.

By default a quick selection on the CPU. `SYMSHAPES_WIDE=1` runs every operator and dtype (minutes),
`SYMSHAPES_DEVICE=cuda` on a GPU.
"""

import itertools
import os
import random
import warnings

import pytest
import torch

WIDE = os.environ.get("SYMSHAPES_WIDE") == "1"
DEVICE = os.environ.get("SYMSHAPES_DEVICE", "cpu")
SAMPLES = int(os.environ.get("SYMSHAPES_SAMPLES", "8" if WIDE else "1"))

# What a quick run takes of the operators: one in so many, and all of these.
EVERY = 5
ALWAYS = {
    "add", "mul", "where", "clamp", "cat", "stack", "index_put", "scatter", "gather", "expand", "view", "reshape",
    "nn.functional.conv2d", "nn.functional.conv3d", "nn.functional.conv_transpose2d", "nn.functional.layer_norm",
    "nn.functional.batch_norm", "nn.functional.group_norm", "nn.functional.max_pool2d", "nn.functional.avg_pool2d",
    "nn.functional.interpolate", "nn.functional.cross_entropy", "nn.functional.embedding", "softmax", "var_mean",
    "nn.functional.scaled_dot_product_attention", "nn.functional.gelu", "addmm", "sort", "as_strided", "squeeze",
}  # fmt: skip


def _transposed(t: torch.Tensor) -> torch.Tensor:
    return t.transpose(-1, -2).contiguous().transpose(-1, -2) if t.dim() > 1 else t


def _channels_last(t: torch.Tensor) -> torch.Tensor:
    if t.dim() == 4:
        return t.contiguous(memory_format=torch.channels_last)
    return t.contiguous(memory_format=torch.channels_last_3d) if t.dim() == 5 else t


def _strided(t: torch.Tensor) -> torch.Tensor:
    return torch.stack([t, t], -1)[..., 0] if t.dim() else t


LAYOUTS = {"as given": lambda t: t, "transposed": _transposed, "channels last": _channels_last, "strided": _strided}


def _dtypes() -> list[torch.dtype]:
    if not WIDE:
        return [torch.float32]
    return [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.complex64, torch.uint8]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rules_foretell_eager(layout, lenient_oracle):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db

        for number, op in enumerate(op_db):
            # A quick run takes each of its operators in one layout, and the most used in all.
            chosen = number % (EVERY * len(LAYOUTS)) == EVERY * list(LAYOUTS).index(layout)
            if not (WIDE or chosen or op.name in ALWAYS):
                continue
            for dtype in _dtypes():
                if op.supports_dtype(dtype, DEVICE):
                    _check(op, dtype, layout, lenient_oracle)
    lenient_oracle.check()
    assert len(lenient_oracle.checked) > (400 if WIDE else 100)


def _check(op, dtype, layout, oracle):
    differentiable = dtype.is_floating_point and op.supports_autograd

    def lay_out(value):
        if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
            return value
        return LAYOUTS[layout](value.detach()).requires_grad_(value.requires_grad)

    try:
        generated = op.sample_inputs(DEVICE, dtype, requires_grad=differentiable)
        samples = list(generated if WIDE else itertools.islice(generated, 4))
    except Exception:  # samples that need something this machine lacks
        return
    random.Random(0).shuffle(samples)
    for sample in samples[:SAMPLES]:
        sample = sample.transform(lay_out)
        try:
            with oracle:
                out = op(sample.input, *sample.args, **sample.kwargs)
                results = [
                    t
                    for t in torch.utils._pytree.tree_leaves(out)
                    if isinstance(t, torch.Tensor) and t.requires_grad and t.dtype.is_floating_point
                ]
                if results:
                    sum((t * t).sum() for t in results).backward()
        except Exception:  # eager rejects the layout: nothing to compare
            continue
