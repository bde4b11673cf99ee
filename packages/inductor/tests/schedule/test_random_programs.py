"""Random programs of elementwise operations, reductions, views and ATen calls: fused results equal eager's."""

from __future__ import annotations

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inductor_schedules import check_schedule

from inductor import Options

UNARY = [torch.sin, torch.relu, torch.neg, lambda x: x * 0.5 + 1, torch.tanh]
BINARY = [torch.add, torch.sub, torch.mul, torch.maximum]


def _view(kind: int, x: torch.Tensor) -> torch.Tensor:
    if x.dim() == 0:
        return x
    match kind:
        case 0:
            return x.transpose(0, -1)
        case 1:
            return x.reshape(-1)
        case 2:
            return x.flip(0)
        case 3:
            return x.unsqueeze(0)
        case 4:
            return x[..., : max(1, x.shape[-1] // 2)]
        case _:
            return x.reshape(x.shape[0], -1).contiguous()


def _reduce(kind: int, x: torch.Tensor) -> torch.Tensor:
    if x.dim() == 0:
        return x
    dim = kind % x.dim()
    match kind // 4 % 3:
        case 0:
            return x.mean(dim, keepdim=True)
        case 1:
            return x.amax(dim)
        case _:
            return x.sum()


def _broadcasts(a: torch.Tensor, b: torch.Tensor) -> bool:
    return all(m == n or m == 1 or n == 1 for m, n in zip(reversed(a.shape), reversed(b.shape)))


Step = st.tuples(
    st.sampled_from(["unary", "binary", "view", "reduce", "extern"]),
    st.integers(0, 11),
    st.integers(0, 99),
    st.integers(0, 99),
)


def _program(steps, outputs):
    def function(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        values = [x, y]
        for kind, which, a, b in steps:
            left, right = values[a % len(values)], values[b % len(values)]
            if kind == "unary":
                values.append(UNARY[which % len(UNARY)](left))
            elif kind == "binary" and _broadcasts(left, right) and left.numel() * right.numel() < 1 << 16:
                values.append(BINARY[which % len(BINARY)](left, right))
            elif kind == "view":
                values.append(_view(which % 6, left))
            elif kind == "reduce":
                values.append(_reduce(which, left))
            elif kind == "extern" and left.dim() == 2:
                values.append(torch.tanh(torch.mm(left, left.t())))
        return [values[o % len(values)] + 0 for o in outputs] + [values[-1] * 2]

    return function


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(Step, min_size=3, max_size=14),
    outputs=st.lists(st.integers(0, 99), min_size=1, max_size=3),
    fuse=st.booleans(),
    shape=st.sampled_from([((4, 6), (4, 6)), ((4, 6), (6,)), ((2, 3, 4), (3, 1)), ((8,), (1,)), ((12, 2), (24,))]),
)
def test_random_programs(steps, outputs, fuse, shape) -> None:
    generator = torch.Generator().manual_seed(len(steps))
    x, y = (torch.randn(size, generator=generator) for size in shape)
    check_schedule(_program(steps, outputs), x, y, options=Options(fuse=fuse), rtol=1e-4, atol=1e-4)
