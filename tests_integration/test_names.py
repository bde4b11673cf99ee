"""Whatever a program calls its tensors, generated code means what it says."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import meta

NAMES = (
    *("buf0", "buf1", "buf2", "t_x_1", "s0", "x", "_x", "x_", "_", "__", "self", "self_", "class_", "lambda_", "None_"),
    *("torch", "args", "call", "float", "int", "max", "len", "range", "math", "_mm", "_empty_strided", "_as_strided"),
    *("_float32", "_cpu", "_object0", "_fit", "compiled", "results", "apply", "ctx", "out0", "grad", "relaid", "once"),
    *("tmp0", "in_ptr0", "out_ptr0", "acc", "i0", "n", "std", "double", "output", "input", "const", "kernel", "at"),
)


def _function(order: tuple[str, ...]) -> Any:
    # Products and sums in turn: kernels, extern calls and buffers of the compiler's own lie between the arguments.
    first, *rest = order
    total = " + ".join(f"mm({name}, {name}.sin())" for name in rest)
    namespace: dict[str, Any] = {"mm": torch.mm}
    exec(f"def f({', '.join(order)}):\n    return ({total}).cos() @ {first}, {first} * 2\n", namespace)
    return namespace["f"]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_names(backend: str, dynamic: bool | None) -> None:
    torch.manual_seed(0)
    for names in (NAMES[i : i + 13] for i in range(0, len(NAMES), 13)):
        function = _function(names)
        tensors = [(torch.randn(3, 3, dtype=torch.float64) / 4).requires_grad_() for _ in names]
        expected = function(*tensors)
        found = meta.compile(function, backend=backend, dynamic=dynamic)(*tensors)
        torch.testing.assert_close(found, expected)
        for mine, eagers in zip(*(torch.autograd.grad(r[0].sum(), tensors) for r in (found, expected)), strict=True):
            torch.testing.assert_close(mine, eagers)


def test_two_sources_of_one_spelling() -> None:
    class Holder:
        b = torch.ones(2)

    def f(a: Any, a_b: torch.Tensor) -> torch.Tensor:
        return a.b * 2 + a_b

    torch.testing.assert_close(meta.compile(f, backend="eager")(Holder(), torch.zeros(2)), torch.full((2,), 2.0))
