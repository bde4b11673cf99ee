"""Our own composites run what eager runs: same numbers, bit for bit."""

import pytest
import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from symshapes import DimPolicy, FakeMode, ShapeEnv
from symshapes.fake.composites import attention_by_products, linear, matmul


class _Products(TorchDispatchMode):
    """Records which matrix products run."""

    def __init__(self):
        super().__init__()
        self.ops = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.__name__.partition(".")[0] in ("mm", "bmm", "mv", "dot"):
            self.ops.append(str(func))
        return func(*args, **(kwargs or {}))


def _ops(function, *args):
    with _Products() as recorded:
        function(*args)
    return recorded.ops


RANKS = [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (3,)), ((3,), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)), ((1, 5, 2, 3), (6, 1, 3, 4)), ((6, 5, 2, 3), (3, 4)),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second"), RANKS)
@pytest.mark.parametrize("grad", [False, True])
def test_matmul(first, second, grad):
    torch.manual_seed(0)
    a, b = torch.randn(first, requires_grad=grad), torch.randn(second, requires_grad=grad)
    ours, eager = matmul(a, b), torch.matmul(a, b)
    assert torch.equal(ours, eager) and ours.stride() == eager.stride()
    assert _ops(matmul, a, b) == _ops(torch.matmul, a, b)


@pytest.mark.parametrize("size", [(2, 3), (5, 2, 3), (4, 5, 2, 3)])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_linear(size, bias, transposed):
    torch.manual_seed(0)
    x = torch.randn(size)
    x = x.transpose(0, -2) if transposed else x
    w, b = torch.randn(4, 3), torch.randn(4) if bias else None
    ours, eager = linear(x, w, b), F.linear(x, w, b)
    assert torch.equal(ours, eager) and ours.stride() == eager.stride()


def test_matmul_of_numbers_is_an_error():
    with pytest.raises(RuntimeError, match="at least 1D"):
        matmul(torch.tensor(1.0), torch.tensor(1.0))


@pytest.mark.parametrize("case", ["a mask with a gradient", "values of another size", "three dimensions", "fused"])
def test_attention_asks_for_no_size(case):
    env = ShapeEnv()
    mode = FakeMode(env)
    last = 6 if case == "values of another size" else 8
    shape = (3, 5, 8) if case == "three dimensions" else (3, 2, 5, 8)
    policy = [DimPolicy.DUCK] * (len(shape) - 1) + [DimPolicy.STATIC]
    with mode:
        q, k = (mode.from_tensor(torch.randn(shape), source=name, policy=policy) for name in "qk")
        v = mode.from_tensor(torch.randn(*shape[:-1], last), source="v", policy=policy)
        bias = torch.randn(3, 1, 5, 5, requires_grad=True)
        mask = None if "mask" not in case else mode.from_tensor(bias, source="mask", policy=DimPolicy.DUCK)
        assert F.scaled_dot_product_attention(q, k, v, mask).shape[-1] == last
    assert env.specializations() == []


@pytest.mark.parametrize("mask", [None, "causal", "bool", "float"])
def test_attention_with_dropout(mask):
    q, k, v = torch.randn(3, 2, 4, 6, 8)
    given = {"bool": torch.rand(6, 6) > 0.3, "float": torch.randn(6, 6)}.get(mask)
    results = []
    for function in (attention_by_products, F.scaled_dot_product_attention):
        torch.manual_seed(0)
        results.append(function(q, k, v, given, 0.25, mask == "causal"))
    assert torch.equal(*results)
