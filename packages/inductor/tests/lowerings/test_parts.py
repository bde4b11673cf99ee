"""Complex numbers that are read as real ones: loops over their parts, with eager's results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from inductor_dynamic import trace_dynamic
from inductor_tracing import check

from inductor import ReferenceBackend, backends
from inductor.handlers.interpreter import run_program
from inductor.ir.program import ExternOp
from inductor.lower import lower
from inductor.traits import DeviceTraits


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The traits are the interpreter's, whatever backend is installed."""
    monkeypatch.setattr(backends, "backend_for", lambda device, chosen=None: ReferenceBackend(device.type))


def test_a_device_whose_loops_read_no_parts_leaves_complex_numbers_to_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReferenceBackend, "traits", DeviceTraits())
    program = check(rotary, torch.randn(2, 3, 5, 8), torch.randn(5, 4, dtype=torch.complex64))
    assert any(isinstance(op, ExternOp) for op in program.operations)


def rotary(q: Any, freqs: Any) -> Any:
    pairs = torch.view_as_complex(q.reshape(*q.shape[:-1], -1, 2))
    return (torch.view_as_real(pairs * freqs).flatten(-2),)


def test_a_rotation_is_one_loop_over_an_input_read_where_it_lies() -> None:
    program = check(rotary, torch.randn(2, 3, 5, 8), torch.randn(5, 4, dtype=torch.complex64))
    assert len(program.operations) == 1
    strided = check(rotary, torch.randn(5, 8), torch.randn(4, 10, dtype=torch.complex64)[:, ::2].t())
    assert len(strided.operations) == 1


def test_complex128_is_left_to_eager() -> None:
    program = check(rotary, torch.randn(2, 3, 5, 8, dtype=torch.float64), torch.randn(5, 4, dtype=torch.complex128))
    assert any(isinstance(op, ExternOp) for op in program.operations)


def test_sizes_may_be_symbolic() -> None:
    def sized(*size: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(size), torch.randn(size[2], size[3] // 2, dtype=torch.complex64)

    graph, fakes = trace_dynamic(rotary, *sized(2, 3, 5, 8))
    program = lower(graph, fakes)
    assert len(program.operations) == 1
    for inputs in (sized(2, 3, 5, 8), sized(4, 2, 9, 16), sized(3, 3, 4, 6)):
        torch.testing.assert_close(run_program(program, inputs)[0], rotary(*inputs)[0])


@pytest.mark.parametrize(
    "function",
    [
        lambda z, w: z * w,
        lambda z, w: z + w,
        lambda z, w: z - w,
        lambda z, w: z * w.real,
        lambda z, w: w.imag - z,
        lambda z, w: z * 2.0 + (1 - 3j),
        lambda z, w: torch.conj_physical(z) * w.conj(),
        lambda z, w: z.transpose(0, 1)[:, 1:].unsqueeze(0).expand(2, -1, -1),
        lambda z, w: torch.complex(z.real, w.imag.expand_as(z)) * torch.polar(z.real, z.imag),
    ],
)
def test_arithmetic_and_views_need_no_kernel_of_eager(function: Callable[..., Any]) -> None:
    numbers = torch.tensor([0.0, 1.0, -2.5, float("inf"), float("-inf"), float("nan"), 3e38, 1e-40])
    z = torch.view_as_complex(torch.cartesian_prod(numbers, numbers)).view(4, 16)
    for a, b in (
        (z, z[:1].flip(1)),
        (torch.randn(4, 16, dtype=torch.complex64), torch.randn(16, dtype=torch.complex64)),
    ):
        program = check(lambda a, b: (torch.view_as_real(function(a, b)) + 0,), a, b)
        called = [op.target for op in program.operations if isinstance(op, ExternOp)]
        assert not called


def test_what_is_also_read_whole_stays_whole() -> None:
    def f(x: Any, w: Any) -> Any:
        product = torch.view_as_complex(x) * w
        return torch.view_as_real(product) * 2, product.abs(), torch.view_as_real(product.conj().resolve_conj()).clone()

    check(f, torch.randn(3, 4, 2), torch.randn(4, dtype=torch.complex64))


def test_absolute_values_are_eagers_where_squares_are_too_large_or_too_small() -> None:
    numbers = torch.tensor([0.0, 1.0, -2.5, float("inf"), float("-inf"), float("nan"), 3e38, 1e-40, 1e-30])
    z = torch.view_as_complex(torch.cartesian_prod(numbers, numbers))
    program = check(lambda z: (z.abs() + 1, torch.hypot(z.real, z.imag)), z)
    assert not any(isinstance(op, ExternOp) for op in program.operations)
