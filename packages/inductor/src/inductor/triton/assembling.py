"""Triton's compiler, without what NVIDIA's assembler gets wrong.

Flows in: a kernel as Triton's compiler takes it. Flows out: what that made of it, and machine code.

LLVM computes small quotients in 16 bits, and two of them by one instruction. Of such a pair of which one half is never read, `ptxas` 12.8 drops
what is added to the other: a sum of two numbers becomes one of them, and an address another. Sums that are told one by one it leaves apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import make_backend

_PAIR = re.compile(r"\b(add|min|max)\.([su]16)x2\s+(%\w+), (%\w+), (%\w+);")


def compile_kernel(source: Any, target: GPUTarget, options: Mapping[str, Any]) -> tuple[Any, bytes]:
    """Triton's `CompiledKernel` and the code to run, which is not always its own."""
    compiled = triton.compile(source, target=target, options=dict(options))
    text = compiled.asm.get("ptx", "")
    apart = without_pairs(text)
    if apart == text:
        return compiled, compiled.kernel
    backend = make_backend(target)
    stages: dict[str, Callable[..., Any]] = {}
    backend.add_stages(stages, backend.parse_options({**options, **source.parse_options()}), source.language)
    return compiled, bytes(stages["cubin"](apart, {}))


def without_pairs(ptx: str) -> str:
    """The text of a kernel with each operation on a pair of 16-bit numbers as two."""
    return _PAIR.sub(_apart, ptx)


def _apart(found: re.Match[str]) -> str:
    operation, kind, result, one, other = found.groups()
    return (
        f"{{ .reg .b16 %one<2>, %other<2>; mov.b32 {{%one0, %one1}}, {one}; mov.b32 {{%other0, %other1}}, {other}; "
        f"{operation}.{kind} %one0, %one0, %other0; {operation}.{kind} %one1, %one1, %other1; mov.b32 {result}, {{%one0, %one1}}; }}"
    )
