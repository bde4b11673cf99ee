"""The key of a compiled graph: a hash of all that its generated code depends on.

Flows in: an fx graph with metadata, and its `Surroundings`. Flows out: a hex digest, or `Uncacheable`.
"""

from __future__ import annotations

import functools
import hashlib
import operator
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import sympy
import torch
from torch import fx

from inductor._torch import OpOverload, no_torch_function
from inductor.backends import class_name
from inductor.cache.sources import Uncacheable, package_hash
from inductor.cache.tensors import is_plain, tensor_bytes
from inductor.device import DeviceBackend
from inductor.ir.text import declaration
from inductor.options import Options
from symshapes import SYMBOLIC, Ambient, argument_text, dataclass, expr_text

NUMBERS = (*SYMBOLIC, int, float)


@dataclass(frozen=True)
class Surroundings:
    """All that a graph's code may depend on besides the graph: made once a compile, and hashed whole."""

    ambient: Ambient
    options: Options
    backends: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    """Of each device type's backend its class, and what it says it reads."""
    sources: tuple[tuple[str, str], ...]
    """The packages that write code, with the hash of their own sources: what is right while they are worked on, too."""
    passes: tuple[str, ...]
    """Names of all passes over graphs and bodies, in their order."""

    @staticmethod
    def of(
        ambient: Ambient,
        options: Options,
        backends: Iterable[DeviceBackend],
        passes: Iterable[str] = (),
        functions: Iterable[Callable[..., Any]] = (),
    ) -> Surroundings:
        """The surroundings of a compile with these; `functions` are what passes and lowerings are made of.

        Raises:
            Uncacheable: one of the functions comes from no file.
        """
        packages = dict.fromkeys(("symshapes", "aotgrad", "inductor"))
        homes = {_home(function) for function in functions}
        facts = []
        for backend in backends:
            # What it inherits prints as well.
            inherited = {kind.__module__ for kind in type(backend).__mro__}
            homes |= {home for home in inherited if home.partition(".")[0] not in sys.stdlib_module_names}
            name = f"{backend.device_type} {class_name(backend)}"
            facts.append((name, (("traits", repr(backend.traits)), *sorted(backend.facts().items()))))
        packages |= dict.fromkeys(sorted({home.partition(".")[0] for home in homes}))
        # Where the cache lies changes nothing that is in it.
        given = replace(options, cache_dir=None)
        sources = tuple((name, package_hash(name, options.cache_dir if options.cache else None)) for name in packages)
        return Surroundings(ambient, given, tuple(facts), sources, tuple(passes))

    def text(self) -> str:
        """All of it, readable."""
        return "\n".join(
            [self.ambient.text(), repr(self.options), repr(self.backends), repr(self.sources), repr(self.passes)]
        )


def _home(function: Callable[..., Any]) -> str:
    """The module whose text says what the function does."""
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__module__", None) or "a function of no module"


def graph_key(module: fx.GraphModule, inputs: Iterable[Any], surroundings: Surroundings) -> str:
    """The key of a graph in its surroundings.

    Raises:
        Uncacheable: for an argument of a kind that has no text of its own, or a constant that is large or not plain memory.
    """
    with no_torch_function():
        return _digest(module, inputs, surroundings)


def _digest(module: fx.GraphModule, inputs: Iterable[Any], surroundings: Surroundings) -> str:
    digest = hashlib.sha256()

    def add(*texts: str) -> None:
        for text in texts:
            digest.update(text.encode())
            digest.update(b"\0")

    add(surroundings.text())
    for value in inputs:
        add(describe(value))
    numbers: dict[fx.Node, int] = {}
    for node in module.graph.nodes:
        numbers[node] = len(numbers)
        add(node.op, node.name, _target(module, node, digest, surroundings.options.freezing))
        arguments = [argument_text(each, numbers, _plain) for each in (node.args, node.kwargs)]
        add(*arguments, describe(node.meta.get("val")))
    for said in ("private", "private_inputs", "writes"):
        add(repr(module.graph.output_node().meta.get(said, ())))
    return digest.hexdigest()


def describe(value: Any) -> str:
    """An input's or node's fake value as text: all metadata that code may depend on."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            raise Uncacheable(f"a tensor of layout {value.layout}")
        sizes = [_number(n) for part in (value.size(), value.stride(), (value.storage_offset(),)) for n in part]
        return f"T{value.dim()}{sizes}{value.dtype}{value.device}{value.is_conj()}{value.is_neg()}"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(describe, value))})"
    return _number(value)


def _number(value: Any) -> str:
    if value is None or isinstance(value, bool | int | float | complex | str):
        return repr(value)
    if isinstance(value, SYMBOLIC):
        return _expression(value.node.expr)
    if isinstance(value, sympy.Basic):
        return _expression(value)
    raise Uncacheable(f"a value of type {type(value).__name__}")


@functools.lru_cache(maxsize=1 << 14)
def _expression(expr: Any) -> str:
    """An expression with what is known of its symbols, which code may depend on."""
    return f"S{expr_text(expr)} of {', '.join(declaration(symbol) for symbol in sorted(expr.free_symbols, key=str))}"


def _plain(value: Any) -> str:
    """An argument that holds no others."""
    if isinstance(value, torch.dtype | torch.device | torch.layout | torch.memory_format):
        return str(value)
    return _number(value)


_LARGEST_CONSTANT = 1 << 24


def _target(module: fx.GraphModule, node: fx.Node, digest: Any, frozen: bool) -> str:
    target = node.target
    if node.op == "get_attr":
        value = functools.reduce(getattr, str(target).split("."), module)
        if not isinstance(value, torch.Tensor):
            return _number(value)
        if frozen:  # its values are computed anew and put in, whatever they are; code depends on its metadata alone
            return "frozen"
        if not is_plain(value):
            raise Uncacheable(f"the constant {target} is not plain memory")
        if value.numel() * value.element_size() > _LARGEST_CONSTANT:
            raise Uncacheable(f"the constant {target} is large")
        digest.update(tensor_bytes(value))
        return describe(value)
    if isinstance(target, str):
        return target
    if isinstance(target, OpOverload):
        return f"{target}{target._schema}"
    if isinstance(node.meta.get("val"), NUMBERS):
        return "a number"  # its value is an expression, and how that came about no matter
    if target is operator.getitem:
        return "an item"
    raise Uncacheable(f"a call of {target}")
