"""Random programs of views and in-place ops, compiled and eager."""

from __future__ import annotations

import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import aotgrad

VIEWS = {
    "transpose": lambda t, n: t.transpose(0, n % t.dim()),
    "permute": lambda t, n: t.permute(*[(d + n) % t.dim() for d in range(t.dim())]),
    "select": lambda t, n: t.select(n % t.dim(), -1),
    "slice": lambda t, n: t.narrow(n % t.dim(), 0, max(t.shape[n % t.dim()] - 1, 1)),
    "stride": lambda t, n: t[n % 2 :: 2] if t.shape[0] > 2 else t[:1],
    "unsqueeze": lambda t, n: t.unsqueeze(n % (t.dim() + 1)),
    "squeeze": lambda t, n: t.squeeze(),
    "flatten": lambda t, n: t.view(-1) if t.is_contiguous() else t,
    "diagonal": lambda t, n: t.diagonal() if t.dim() > 1 else t,
    "detach": lambda t, n: t.detach(),
    "chunk": lambda t, n: t.chunk(2, n % t.dim())[0],
    "as_strided": lambda t, n: t.as_strided((2,), (1,), t.storage_offset()) if t.numel() > 2 else t,
    "alias": lambda t, n: t.view_as(t),
}
WRITES = {
    "add": lambda t, other, n: t.add_(n),
    "mul": lambda t, other, n: t.mul_(0.5),
    "zero": lambda t, other, n: t.zero_(),
    "fill": lambda t, other, n: t.fill_(n),
    "copy": lambda t, other, n: t.copy_(other.sum()),
    "copy_other": lambda t, other, n: t.copy_(other.clone()) if other.shape == t.shape else t,
    "index": lambda t, other, n: t.index_fill_(0, torch.tensor([0]), n),
    "tanh": lambda t, other, n: t.tanh_(),
    "masked": lambda t, other, n: t.masked_fill_(t > 0.5, n),
    "uniform": lambda t, other, n: t.uniform_(),
}
PURE = {
    "sin": lambda t, other, n: t.sin(),
    "times": lambda t, other, n: t * other if t.shape == other.shape else t * n,
    "clone": lambda t, other, n: t.clone(),
    "relaid": lambda t, other, n: t.contiguous(),
}

Step = tuple[str, str, int, int, int]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("view"), st.sampled_from(sorted(VIEWS)), *[st.integers(0, 6)] * 3),
        st.tuples(st.just("write"), st.sampled_from(sorted(WRITES)), *[st.integers(0, 6)] * 3),
        st.tuples(st.just("pure"), st.sampled_from(sorted(PURE)), *[st.integers(0, 6)] * 3),
    ),
    min_size=2,
    max_size=9,
)


def build(steps: list[Step], returned: list[int]):
    def program(x, y):
        values = [x, y]
        for kind, name, which, other, number in steps:
            t, u = values[which % len(values)], values[other % len(values)]
            if kind == "view":
                values.append(VIEWS[name](t, number) if t.dim() else t)
            elif kind == "write":
                if not t.dim() and name == "index":
                    continue
                WRITES[name](t, u, number)
            else:
                values.append(PURE[name](t, u, number))
        return tuple(values[i % len(values)] for i in returned)

    return program


def runs(program, grad: bool) -> bool:
    """Whether eager accepts the program (autograd refuses some writes)."""
    try:
        out = program(*inputs(grad))
        wanted = [t.sum() for t in out if t.requires_grad and t.grad_fn is not None]
        if wanted:
            sum(wanted).backward()
    except RuntimeError:
        return False
    # Such an output is a leaf of autograd's, or an input that turned into one.
    return not any(t.requires_grad and t.grad_fn is None for t in out)


def inputs(grad: bool) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(3, 4, generator=generator)
    y = torch.randn(3, 4, generator=generator)
    return (x.requires_grad_() * 1 if grad else x), y


COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True}


@settings(max_examples=60, **COMMON)
@given(STEPS, st.lists(st.integers(0, 10), min_size=1, max_size=3))
def test_without_gradients(check, steps, returned):
    program = build(steps, returned)
    assume(runs(program, grad=False))
    check(program, *inputs(False), calls=1)


@settings(max_examples=60, **COMMON)
@given(
    STEPS,
    st.lists(st.integers(0, 10), min_size=1, max_size=3),
    st.sampled_from([aotgrad.partition_default, aotgrad.partition_min_cut]),
)
def test_with_gradients(check, steps, returned, partitioner):
    program = build(steps, returned)
    assume(runs(program, grad=True))
    x, y = inputs(False)
    try:
        check(program, x.requires_grad_(), y, calls=1, nonleaf=True, partitioner=partitioner)
    except aotgrad.Unsupported:
        assume(False)
