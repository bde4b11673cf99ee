"""Every lowering against eager, on torch's own sample inputs. The wide sweep takes more samples: set INDUCTOR_SAMPLES."""

from __future__ import annotations

import itertools
import os
import warnings
from typing import Any

import pytest
import torch
from inductor_tracing import check_graph, is_functional, trace
from torch.utils import _pytree as pytree

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

SAMPLES = int(os.environ.get("INDUCTOR_SAMPLES", "2"))
DTYPES = (torch.float32, torch.int64, torch.bool, torch.bfloat16)
FAMILIES = (
    # arithmetic
    "abs add addcdiv addcmul atan2 bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor "
    "ceil clamp copysign cos div eq erf exp expm1 floor floor_divide fmax fmin fmod frac ge gt heaviside isfinite isinf "
    "isnan isneginf isposinf le lerp lgamma log log1p logaddexp logical_and logical_not logical_or logical_xor lt "
    "masked_fill maximum minimum mul nan_to_num ne neg pow reciprocal remainder round rsqrt rsub sgn sigmoid sign signbit "
    "sin sqrt square sub tan tanh true_divide trunc where xlogy angle ldexp logaddexp2 special.entr special.xlog1py "
    # activations
    "nn.functional.celu nn.functional.elu nn.functional.gelu nn.functional.hardshrink nn.functional.hardsigmoid "
    "nn.functional.hardswish nn.functional.hardtanh nn.functional.leaky_relu nn.functional.logsigmoid "
    "nn.functional.mish nn.functional.prelu nn.functional.relu nn.functional.relu6 nn.functional.silu "
    "nn.functional.softplus nn.functional.softshrink nn.functional.threshold logit "
    # creation
    "arange clone contiguous eye fill full full_like new_full new_ones new_zeros ones ones_like to zeros zeros_like "
    # views
    "as_strided broadcast_to chunk diagonal expand flatten movedim narrow permute reshape select split squeeze "
    "swapaxes t tensor_split transpose unbind unflatten unfold unsqueeze unsafe_split view "
    # indexing and scatter
    "cat constant_pad_nd flip gather index_add index_copy index_put index_reduce index_select nn.functional.embedding nn.functional.pad repeat "
    "roll scatter scatter_add scatter_reduce select_scatter put take index_fill slice_scatter stack take_along_dim tile tril triu __getitem__ "
    # reductions and normalisation
    "all amax amin any argmax argmin log_softmax logsumexp max mean min nn.functional.layer_norm prod softmax std std_mean "
    "sum var var_mean aminmax count_nonzero dist nanmean nansum norm trace "
    # vectors, diagonals, membership
    "addbmm addr block_diag cross diag_embed diagonal_scatter dot isin linalg.cross nn.functional.pairwise_distance vdot "
    # pooling
    "nn.functional.avg_pool2d nn.functional.max_pool2d nn.functional.interpolate"
).split()
OPS = [op for op in op_db if op.name in FAMILIES]


#: Sums of products of numbers up to 9, which eager's library adds in an order of the machine's.
ROUNDED = {("addbmm", torch.float32): {"rtol": 2e-6, "atol": 1e-4}}


def name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def samples(op: Any, dtype: torch.dtype, gradient: bool = False) -> list[Any]:
    torch.manual_seed(0)
    return list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=gradient), SAMPLES))


def as_function(op: Any, sample: Any) -> tuple[Any, list[torch.Tensor]]:
    """The sample's call as a function of its tensors, and these."""
    flat, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [at for at, value in enumerate(flat) if isinstance(value, torch.Tensor)]

    def function(*tensors: torch.Tensor) -> Any:
        filled = list(flat)
        for at, tensor in zip(places, tensors, strict=True):
            filled[at] = tensor
        first, args, kwargs = pytree.tree_unflatten(filled, spec)
        return op.op(first, *args, **kwargs)

    return function, [flat[at] for at in places]


@pytest.mark.parametrize("op", OPS, ids=name)
def test_results_are_eagers(op: Any) -> None:
    for dtype in DTYPES:
        if op.supports_dtype(dtype, "cpu"):
            for sample in samples(op, dtype):
                function, tensors = as_function(op, sample)
                graph, expected = trace(function, *tensors)
                if is_functional(graph):
                    check_graph(graph, expected, tensors, **ROUNDED.get((op.name, dtype), {}))


BACKWARD = [op for op in OPS if op.supports_autograd and op.name.startswith(("nn.", "softmax", "log_softmax"))]


@pytest.mark.parametrize("op", BACKWARD, ids=name)
def test_gradients_are_eagers(op: Any) -> None:
    for sample in samples(op, torch.float32, gradient=True):
        function, tensors = as_function(op, sample)

        def gradient(*inputs: torch.Tensor, function: Any = function) -> Any:
            with torch.enable_grad():
                outs = [out for out in pytree.tree_leaves(function(*inputs)) if out.requires_grad]
                wanted = [x for x in inputs if x.requires_grad]
                return torch.autograd.grad(outs, wanted, [out * 0.5 for out in outs], allow_unused=True)

        graph, expected = trace(gradient, *tensors)
        if is_functional(graph):
            check_graph(graph, expected, tensors)
