"""Kernels made by hand, run compiled and by the IR's interpreter; and which instruction sets this machine can run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import sympy
import torch

from cpu_codegen import CpuBackend
from cpu_codegen.cpu_info import _NEEDS, ISAS
from inductor import Kernel, KernelArg, ReferenceBackend, record
from symshapes import ambient

RUNNABLE = [name for name in ISAS if name == "scalar" or _NEEDS[name] <= ambient().machine.features]


@pytest.fixture(scope="session", autouse=True)
def build_cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Builds of the tests stay out of the user's cache."""
    patch = pytest.MonkeyPatch()
    patch.setenv("INDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


@pytest.fixture(params=RUNNABLE)
def isa(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every instruction set that this machine runs, one after the other."""
    monkeypatch.setenv("CPU_CODEGEN_ISA", request.param)
    return request.param


def symbol(name: str) -> sympy.Symbol:
    return sympy.Symbol(name, integer=True, nonnegative=True)


@dataclass
class Case:
    """A kernel and how to run it."""

    kernel: Kernel

    @classmethod
    def make(
        cls,
        name: str,
        function: Callable[[Sequence[Any], Sequence[Any]], None],
        outer: Sequence[Any],
        inner: Sequence[Any],
        buffers: Mapping[str, tuple[str, torch.dtype]],
        sizes: Sequence[sympy.Symbol] = (),
    ) -> Case:
        """`buffers`: name to (role, dtype)."""
        outer_vars = [symbol(f"i{k}") for k in range(len(outer))]
        inner_vars = [symbol(f"j{k}") for k in range(len(inner))]
        body = record(function, outer_vars, inner_vars, lambda n: buffers[n][1])
        args = [KernelArg(n, role, dtype) for n, (role, dtype) in buffers.items()]  # type: ignore[arg-type]
        args += [KernelArg(s.name, "size", torch.int64) for s in sizes]
        as_sizes = tuple(map(sympy.sympify, outer)), tuple(map(sympy.sympify, inner))
        return cls(
            Kernel(name, torch.device("cpu"), *as_sizes, body, tuple(args), tuple(sizes), (f"{name} in a test",))
        )

    def expected(
        self, memory: Mapping[str, torch.Tensor], sizes: Mapping[sympy.Symbol, int] | None = None
    ) -> dict[str, torch.Tensor]:
        """The written buffers as the interpreter fills them."""
        source = ReferenceBackend().emit(self.kernel)
        return self.call(ReferenceBackend().build("", [source]), memory, sizes)

    def call(
        self,
        compiled: Mapping[str, Callable[..., None]],
        memory: Mapping[str, torch.Tensor],
        sizes: Mapping[sympy.Symbol, int] | None = None,
    ) -> dict[str, torch.Tensor]:
        """The written buffers as the compiled kernel fills them."""
        k = self.kernel
        copies = {n: t.clone() for n, t in memory.items()}
        values = {s.name: v for s, v in (sizes or {}).items()}
        compiled[k.name](*(values[a.name] if a.role == "size" else copies[a.name] for a in k.args))
        return {arg.name: copies[arg.name] for arg in k.args if arg.role in ("out", "inout")}


def compile_cases(cases: Sequence[Case]) -> Mapping[str, Callable[..., None]]:
    """All kernels of `cases` in one file."""
    backend = CpuBackend()
    for case in cases:
        assert backend.supports(case.kernel)
    sources = [backend.emit(case.kernel) for case in cases]
    calls = backend.build(backend.module_text(sources), sources)
    return {case.kernel.name: calls[case.kernel.name] for case in cases}


@pytest.fixture
def case() -> Callable[..., Case]:
    return Case.make


@pytest.fixture
def compiled() -> Callable[[Sequence[Case]], Mapping[str, Callable[..., None]]]:
    return compile_cases
