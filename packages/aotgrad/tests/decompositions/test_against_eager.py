"""Every decomposition against the kernel it stands for, on torch's own operator samples, forward and backward."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("expecttest")  # what torch's operator samples import
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode

from aotgrad import core_decompositions

TABLE = core_decompositions()
TOLERANCE = {
    torch.float64: {"rtol": 1e-7, "atol": 1e-9},
    torch.float32: {"rtol": 1e-4, "atol": 1e-4},
    torch.bfloat16: {"rtol": 2e-2, "atol": 2e-2},
}
# Reductions in bfloat16 round once here and several times in some kernels, or the other way round.
LOOSE = {"rtol": 8e-2, "atol": 8e-2}
ROUNDS_OFTEN = {"aten.linalg_cross.default", "aten.addr.default", "aten.addbmm.default"}
"""Kernels that round half precision after each product and each sum: a decomposition need only be as near to what is exact."""
SAMPLES = 12

NAMES = """
addcdiv addcmul arange clamp clamp_max clamp_min diagonal frac full_like lerp logit
logsumexp logaddexp masked_fill nan_to_num new_full new_ones new_zeros ones ones_like repeat rot90 rsub select
sinc slice split split_with_sizes stack std std_mean tril triu unbind var var_mean xlogy zeros zeros_like
linalg.vector_norm log_softmax softmax deg2rad rad2deg floor_divide sigmoid tanh scalar_tensor
nn.functional.gelu nn.functional.silu nn.functional.mish nn.functional.hardsigmoid nn.functional.hardswish
nn.functional.hardtanh nn.functional.relu6 nn.functional.leaky_relu nn.functional.elu nn.functional.celu
nn.functional.selu nn.functional.softplus nn.functional.threshold nn.functional.relu nn.functional.logsigmoid
nn.functional.glu nn.functional.hardshrink nn.functional.softshrink nn.functional.prelu nn.functional.layer_norm
nn.functional.group_norm nn.functional.batch_norm nn.functional.instance_norm nn.functional.mse_loss
nn.functional.l1_loss nn.functional.smooth_l1_loss nn.functional.huber_loss nn.functional.soft_margin_loss
nn.functional.binary_cross_entropy nn.functional.binary_cross_entropy_with_logits nn.functional.nll_loss
nn.functional.cross_entropy nn.functional.embedding nn.functional.interpolate nn.functional.pixel_shuffle
nn.functional.pixel_unshuffle nn.functional.upsample_nearest nn.functional.rms_norm nn.functional.softmin
nn.functional.dropout norm _batch_norm_with_update
cross linalg.cross dot vdot addr addbmm trace dist nansum nanmean aminmax count_nonzero isin take put index_fill diag_embed
diagonal_scatter block_diag scatter_reduce logaddexp2 angle round special.xlog1py special.entr ldexp diagonal_copy
alias_copy expand_copy permute_copy squeeze_copy t_copy transpose_copy unfold_copy unsqueeze_copy view_copy split_with_sizes_copy
nn.functional.pairwise_distance unbind_copy
""".split()


class Checker(TorchDispatchMode):
    """Runs each op that has a decomposition both ways and compares values, dtypes, sizes and strides."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[object] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        decomposition = TABLE.get(func)
        if decomposition is None:
            return func(*args, **kwargs)
        mine_args, mine_kwargs = torch.utils._pytree.tree_map_only(
            torch.Tensor, lambda t: t.clone() if t.is_leaf and not _is_view(t) else t, (args, kwargs)
        )
        state = torch.get_rng_state()
        expected = func(*args, **kwargs)
        torch.set_rng_state(state)
        got = decomposition(*mine_args, **mine_kwargs)
        if got is not NotImplemented:
            self.seen.add(func)
            if str(func) in ROUNDS_OFTEN and expected.dtype is torch.bfloat16:
                exact = func(*torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.double, args), **kwargs)
                assert got.shape == expected.shape and got.stride() == expected.stride()
                assert (got - exact).norm() <= (expected - exact).norm()
                return expected
            compare(func, got, expected)
            for mine, theirs in zip(mine_args, args):
                if isinstance(theirs, torch.Tensor):
                    compare(func, mine, theirs)
        return expected


def _is_view(t: torch.Tensor) -> bool:
    return t._is_view() or not t.is_contiguous()


def compare(func, got, expected) -> None:
    if isinstance(expected, (tuple, list)):
        assert len(got) == len(expected), func
        for one, other in zip(got, expected):
            compare(func, one, other)
    elif expected is None:
        assert got is None or isinstance(got, torch.Tensor), func
    else:
        assert got.dtype == expected.dtype and got.shape == expected.shape, (func, got.dtype, expected.dtype)
        if expected.numel() > 1:
            relevant = [(a, b) for a, b, n in zip(got.stride(), expected.stride(), expected.shape) if n != 1]
            assert all(a == b for a, b in relevant), (func, got.stride(), expected.stride(), expected.shape)
        tolerance = TOLERANCE.get(expected.dtype, {"rtol": 0, "atol": 0})
        if expected.dtype is torch.bfloat16 and ("norm" in str(func) or "sum" in str(func) or "loss" in str(func)):
            tolerance = LOOSE
        torch.testing.assert_close(got, expected, equal_nan=True, **tolerance, msg=lambda m: f"{func}: {m}")


def run_samples(op, dtype: torch.dtype) -> Checker:
    needs_grad = op.supports_autograd and dtype.is_floating_point
    checker = Checker()
    for number, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=needs_grad)):
        if number >= SAMPLES:
            break
        torch.manual_seed(number)
        with checker:
            out = op(sample.input, *sample.args, **sample.kwargs)
            outs = [t for t in (out if isinstance(out, (tuple, list)) else [out]) if isinstance(t, torch.Tensor)]
            wanted = [t for t in outs if t.requires_grad]
            if wanted:
                torch.autograd.backward(wanted, [torch.randn_like(t) for t in wanted])
    return checker


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_samples(name: str, dtype: torch.dtype) -> None:
    entries = [op for op in op_db if op.name == name and dtype in op.dtypes]
    for op in entries:
        run_samples(op, dtype)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize(
    "name",
    [
        "logit",
        "clamp",
        "rsub",
        "masked_fill",
        "nn.functional.hardtanh",
        "nn.functional.relu6",
        "native_dropout_backward",
        *"cross dot addr addbmm trace nansum aminmax count_nonzero isin take put index_fill diag_embed diagonal_scatter".split(),
        *"block_diag scatter_reduce angle round special.xlog1py ldexp dist".split(),
    ],
)
def test_samples_of_integers(name: str, dtype: torch.dtype) -> None:
    for op in op_db:
        if op.name == name and dtype in op.dtypes:
            run_samples(op, dtype)
