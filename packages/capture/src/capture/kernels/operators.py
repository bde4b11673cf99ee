"""The operator that a graph calls a kernel by: one for each kernel and way to call it, registered as the first graph needs it.

In: a kernel, how it is called and what it writes to. Out: an `OpOverload` of the namespace `triton_kernels`, which runs the kernel
through the program's own object, so that what that chooses and remembers is the program's.

Its arguments are the tensors and numbers of the call in their order, and all grids that there may be, one after the other.
"""

from __future__ import annotations

import hashlib
import keyword
import re
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

import torch

from symshapes import dataclass, in_turn, register_fake, register_launches

from .description import Kernel

_NAMESPACE = "triton_kernels"
_library = torch.library.Library(_NAMESPACE, "FRAGMENT")
#: How many operators have a name; kernels of the same text may be different objects.
_names: Counter[str] = Counter()
#: By the kernel's identity; the operators hold the kernels, which so stay.
_operators: dict[tuple[Any, ...], Any] = {}


@dataclass(frozen=True)
class Argument:
    """One argument of a call: a tensor, a number that the graph computes, or (`constant`) what it always is.

    `name` is the parameter's, or that of an option such as `num_warps`; `by_name`: how the program passed it."""

    name: str
    kind: Literal["tensor", "int", "float", "constant"]
    by_name: bool
    written: bool = False
    constant: Any = None

    @property
    def key(self) -> tuple[Any, ...]:
        return self.name, self.kind, self.by_name, self.written, type(self.constant), repr(self.constant)


@dataclass(frozen=True)
class Launcher:
    """How a kernel is called: arguments, how many numbers a grid has, and the parameters by which one of several is told."""

    arguments: tuple[Argument, ...]
    rank: int
    #: For each grid the values of parameters that it is for; one grid is for all.
    variants: tuple[tuple[tuple[str, Any], ...], ...]


_TYPES = {"int": "SymInt", "float": "float"}


@in_turn
def operator_of(kernel: Kernel, launcher: Launcher, texts: list[str]) -> Any:
    """The operator. `texts` are the sources of the kernel and its helpers: equal kernels get equal names in every process."""
    key = (
        id(kernel.outer),
        id(kernel.function),
        tuple(argument.key for argument in launcher.arguments),
        launcher.rank,
        repr(launcher.variants),
    )
    found = _operators.get(key)
    if found is None:
        found = _operators[key] = _made(kernel, launcher, [*texts, repr(key[2:])])
    return found


def _made(kernel: Kernel, launcher: Launcher, texts: list[str]) -> Any:
    digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]
    name = f"{re.sub(r'[^0-9A-Za-z_]', '_', kernel.function.__name__)}_{digest}"
    before = _names[name]
    _names[name] += 1
    name += f"__{before}" if before else ""
    parameters = []
    for at, argument in enumerate(each for each in launcher.arguments if each.kind != "constant"):
        written = f"(a{at}!)" if argument.written else ""
        kind = f"Tensor{written}" if argument.kind == "tensor" else _TYPES[argument.kind]
        parameters.append(f"{kind} {_parameter(argument.name, at)}")
    _library.define(f"{name}({', '.join([*parameters, 'SymInt[] grids'])}) -> ()")
    _library.impl(name, _runner(kernel, launcher), "CompositeExplicitAutograd")
    # A kernel knows nothing of autograd: nothing is recorded, no version counted.
    _library.impl(name, torch.library.fallthrough_kernel, "Autograd")
    register_fake(f"{_NAMESPACE}::{name}", _no_result, _library)
    operator = getattr(getattr(torch.ops, _NAMESPACE), name).default
    register_launches(operator)
    return operator


def _parameter(name: str, at: int) -> str:
    usable = re.fullmatch(r"[A-Za-z]\w*", name) and not keyword.iskeyword(name) and name not in ("grids", "self")
    return name if usable else f"argument{at}"


def _no_result(*args: Any) -> None:
    return None


def _runner(kernel: Kernel, launcher: Launcher) -> Callable[..., None]:
    """Calls the kernel as the program does."""
    outer = kernel.outer
    rank, variants = launcher.rank, launcher.variants

    def grid_of(grids: list[int]) -> Any:
        if len(variants) == 1:
            return tuple(grids)

        def chosen(meta: dict[str, Any]) -> tuple[int, ...]:
            for at, variant in enumerate(variants):
                if all(meta[name] == value for name, value in variant):
                    return tuple(grids[at * rank : (at + 1) * rank])
            raise RuntimeError(
                f"{kernel.function.__name__}: its autotuner came up with a configuration that was none of its own when it was compiled"
            )

        return chosen

    def run(*given: Any) -> None:
        values = iter(given)
        args = []
        kwargs = {}
        for argument in launcher.arguments:
            value = argument.constant if argument.kind == "constant" else next(values)
            if argument.by_name:
                kwargs[argument.name] = value
            else:
                args.append(value)
        outer.run(*args, grid=grid_of(given[-1]), warmup=False, **kwargs)

    return run
