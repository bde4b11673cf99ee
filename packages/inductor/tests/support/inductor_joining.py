"""Steps of optimizers, and a backend that interprets kernels and runs several by one launch, one after the other in an order that the
test chooses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from inductor import JointKernel, JointSource, KernelCall, ReferenceBackend
from inductor.handlers.reference import interpreted

Order = Callable[[range], Sequence[int]]


class Joining(ReferenceBackend):
    """`order`: of the parts of each launch."""

    traits = replace(ReferenceBackend.traits, joins=2)

    def __init__(self, order: Order = list) -> None:
        super().__init__()
        self.order = order
        self.joint: list[JointKernel] = []

    def emit_joint(self, kernel: JointKernel) -> JointSource:
        self.joint.append(kernel)
        return JointSource(kernel, f"# {kernel.name}: {len(kernel.parts)} parts\n")

    def build_joint(self, module_text: str, sources: Sequence[JointSource]) -> Mapping[str, KernelCall]:
        return {source.kernel.name: self._call(source.kernel) for source in sources}

    def _call(self, joint: JointKernel) -> KernelCall:
        calls = [interpreted(kernel) for kernel in joint.kernels]

        def run(*args: Any) -> None:
            rest = list(args)
            parts = []
            for part in joint.parts:
                count = len(joint.kernels[part.kernel].args)
                parts.append((part, rest[:count]))
                del rest[:count]
            assert not rest
            for at in self.order(range(len(parts))):
                part, given = parts[at]
                numbers = given[len(given) - len(part.known) :]
                assert all(n is None or n == value for n, value in zip(part.known, numbers, strict=True))
                calls[part.kernel](*given)

        return run


SIZES = [(64, 33), (7,), (1040,), (3, 5), (2048,), (1,), (), (0, 4), (16, 16)]


def tensors(sizes: Sequence[tuple[int, ...]], *dtypes: torch.dtype, seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.rand(size, generator=generator).to(dtypes[at % len(dtypes)] if dtypes else torch.float32)
        for at, size in enumerate(sizes)
    ]


def adam(count: int) -> Callable[..., tuple[torch.Tensor, ...]]:
    """A step over lists one behind the other: parameters, gradients, first and second moments."""

    def step(*lists: torch.Tensor) -> tuple[torch.Tensor, ...]:
        p, g, m, v = (list(lists[at * count : (at + 1) * count]) for at in range(4))
        m = torch._foreach_add(torch._foreach_mul(m, 0.9), g, alpha=0.1)  # type: ignore[assignment]
        v = torch._foreach_addcmul(torch._foreach_mul(v, 0.999), g, g, value=0.001)  # type: ignore[assignment]
        root = torch._foreach_add(torch._foreach_sqrt(v), 1e-8)
        p = torch._foreach_addcdiv(torch._foreach_mul(p, 0.99), m, root, value=-0.01)  # type: ignore[assignment]
        return (*p, *m, *v)

    return step


def moments(count: int) -> dict[int, int]:
    return {at: at if at < count else at + count for at in range(3 * count)}
