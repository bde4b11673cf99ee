"""Triton kernels that the program calls, ``kernel[grid](x, y, n, BLOCK=64)``: one node of the graph each.

In: calls. Out: calls of an operator of ``capture.kernels``, which says what is written to; guards on what the kernel is made of.
Heuristics, and grids that are functions, are evaluated here, for each configuration of an autotuner: the kernel's own object
chooses among those when it runs.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable
from typing import Any

import torch

from capture.errors import NotConstant, Unsupported
from capture.guards import GuardKind
from capture.kernels import (
    Argument,
    Kernel,
    Launcher,
    Reference,
    describe,
    is_host_function_class,
    is_kernel_class,
    operator_of,
    references_of,
    refuse_casts,
    written_by,
)
from capture.labels import place_of
from capture.sources import Attr, Const, Item, ModuleGlobal, Source

from .base import Args, Interpreter, Kwargs, Variable
from .building import builds_where, known_part
from .constants import CONSTANT_TYPES, Constant, Known
from .handlers import handles
from .numbers import Symbolic
from .reconstruction import Emitter
from .sequences import List, Sequence
from .tensors import Tensor

#: Constants that have a text of their own.
_PLAIN = (*CONSTANT_TYPES, torch.dtype)


class TritonKernel(Known):
    """A kernel object, of known identity."""

    def item(self, m: Interpreter, key: Variable) -> Variable:
        return Launch(self, key)

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name == "__getitem__" and len(args) == 1 and not kwargs:
            return self.item(m, args[0])
        return super().method(m, name, args, kwargs)

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        raise Unsupported("a Triton kernel called without a grid")


class HostFunction(Known):
    """A Python function that programs call as kernels do: ``triton.cdiv``."""

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        return m.calls.call(m.builder.wrap(self.value.fn, known_part(self.value, "fn")), args, kwargs)


class TritonDtype(Known):
    """``tl.float32``: what it has never changes."""

    def attribute(self, m: Interpreter, name: str) -> Variable:
        value = m.builder.fold(getattr, [self.value, name])
        return Constant(value) if type(value) in CONSTANT_TYPES else super().attribute(m, name)


class Launch(Variable):
    """``kernel[grid]``."""

    def __init__(self, kernel: TritonKernel, grid: Variable) -> None:
        self.kernel = kernel
        self.grid = grid

    def made_of(self) -> Iterable[Variable]:
        return (self.kernel, self.grid)

    def reconstruct(self, e: Emitter) -> None:
        e.call(operator.getitem, [self.kernel, self.grid])

    def hash_key(self, m: Interpreter) -> Hashable:
        return m.identity.key(self)

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        kernel = describe(self.kernel.value)
        texts = _guard(m, kernel)
        call = _Call(m, kernel, [a.realize(m) for a in args], {k: v.realize(m) for k, v in kwargs.items()})
        call.record(self.grid.realize(m), texts)
        return Launched()


class Launched(Variable):
    """What a launch gives: the compiled kernel, of which nothing is known."""


class _Call:
    """One call: arguments by parameter, as the program passed them."""

    def __init__(self, m: Interpreter, kernel: Kernel, args: list[Variable], kwargs: dict[str, Variable]) -> None:
        self.m = m
        self.kernel = kernel
        if len(args) > len(kernel.names):
            raise Unsupported("a Triton kernel called with too many arguments")
        self.passed = [*zip(kernel.names, args, (False,) * len(args), strict=False)]
        self.passed += [(name, value, True) for name, value in kwargs.items()]
        self.values = {name: value for name, value, _ in self.passed}
        if len(self.values) != len(self.passed) or self.values.keys() & {"grid", "warmup"}:
            raise Unsupported("a Triton kernel called with an argument twice")

    def record(self, grid: Variable, texts: list[str]) -> None:
        m = self.m
        arguments = [self.argument(*each) for each in self.passed]
        known = {argument.name: argument.constant for argument in arguments if argument.kind == "constant"}
        written = self.written([a.name for a in arguments if a.kind == "tensor"], known)
        arguments = [
            Argument(
                a.name, a.kind, a.by_name, a.kind == "tensor" and (written is None or a.name in written), a.constant
            )
            for a in arguments
        ]
        # A grid that is no function asks for nothing.
        variants = self.variants() if _is_function(grid) else [(self.values, ())]
        grids = [self.grid(grid, meta) for meta, _ in variants]
        if len({len(each) for each in grids}) != 1:
            raise Unsupported("a Triton kernel whose grid has now more dimensions and now fewer")
        chosen_by = tuple(chosen for _, chosen in variants)
        launcher = Launcher(tuple(arguments), len(grids[0]), chosen_by)
        operator = operator_of(self.kernel, launcher, texts)
        given = [self.values[a.name] for a in arguments if a.kind != "constant"]
        sizes = m.effects.created(List([size for each in grids for size in each]))
        m.recorder.record("call_function", operator, [*given, sizes], {})

    def argument(self, name: str, value: Variable, by_name: bool) -> Argument:
        """One argument, as far as the operator is concerned."""
        m = self.m
        what = f"the argument {name} of the Triton kernel {self.kernel.function.__name__}"
        fixed = name in self.kernel.constants or name not in self.kernel.names
        if isinstance(value, Tensor):
            if fixed:
                raise Unsupported(f"{what}, a constant that is a tensor")
            return Argument(name, "tensor", by_name)
        kind = value.python_type()
        if not fixed and kind in (int, float) and isinstance(value, (Symbolic, Constant)):
            return Argument(name, "int" if kind is int else "float", by_name)
        try:
            constant = m.builder.to_python(value)
        except NotConstant:
            raise Unsupported(f"{what}, which is a {kind.__name__}") from None
        if not isinstance(constant, _PLAIN) and not _is_dtype_class(type(constant)):
            raise Unsupported(f"{what}, which is a {kind.__name__}")
        return Argument(name, "constant", by_name, constant=constant)

    def written(self, tensors: list[str], known: dict[str, Any]) -> frozenset[str] | None:
        """The parameters that are written through; None where it may be all of them."""
        found = written_by(self.kernel.function, tensors, known)
        reset = {name for wrapper in self.kernel.wrappers for name in getattr(wrapper, "reset_to_zero", ())}
        restored = {name for wrapper in self.kernel.wrappers for name in getattr(wrapper, "restore_value", ())}
        return None if found is None else found | reset | restored

    def variants(self) -> list[tuple[dict[str, Variable], tuple[tuple[str, Any], ...]]]:
        """For each configuration the values of all parameters, and by which of them it is told from the others."""
        m = self.m
        found: list[tuple[dict[str, Variable], tuple[tuple[str, Any], ...]]] = [(dict(self.values), ())]
        for wrapper in self.kernel.wrappers:
            if wrapper_configs := getattr(wrapper, "configs", None):
                found = [
                    ({**values, **_options(m, config)}, _choice(self.kernel, config, len(wrapper_configs)))
                    for values, _ in found
                    for config in wrapper_configs
                ]
                continue
            found = [(self.ruled(wrapper, values), chosen) for values, chosen in found]
            if len(found) > 1:
                found = [(values, (*chosen, *self.constants(wrapper.values, values))) for values, chosen in found]
        defaults = self.defaults()
        return [({**defaults, **values}, chosen) for values, chosen in found]

    def ruled(self, heuristics: Any, values: dict[str, Variable]) -> dict[str, Variable]:
        """The values of all parameters with those that heuristics make of them, one after the other."""
        m = self.m
        made = dict(values)
        for name, function in heuristics.values.items():
            rule = m.builder.wrap(function, Item(known_part(heuristics, "values"), name))
            made[name] = self.asked(rule, made)  # and once more as the kernel runs
        return made

    def asked(self, function: Variable, values: dict[str, Variable]) -> Variable:
        """What a function of the parameters gives, which must not matter otherwise: how often it is called is the run's."""
        m = self.m
        written = dict(m.globals.written)
        with m.effects.apart() as changed:
            found = m.calls.call(function, [m.builder.new_dict(dict(values))], {}).realize(m)
            if changed() or written != m.globals.written:
                raise Unsupported("a function of a Triton kernel's parameters that changes something")
        return found

    def constants(self, names: Iterable[str], values: dict[str, Variable]) -> list[tuple[str, Any]]:
        """These parameters' values, which must be known."""
        if not self.kernel.constants.issuperset(names):
            raise Unsupported("a Triton kernel with heuristics for what is no constant")
        return [(name, self.argument(name, values[name], True).constant) for name in names]

    def defaults(self) -> dict[str, Variable]:
        """Parameters' defaults, which were fixed as the kernel was defined."""
        given = self.kernel.function.__defaults__ or ()
        named = zip(self.kernel.names[len(self.kernel.names) - len(given) :], given, strict=True)
        return {name: self.m.builder.known(value) for name, value in named}

    def grid(self, grid: Variable, meta: dict[str, Variable]) -> list[Variable]:
        """The numbers of a grid under these parameters."""
        m = self.m
        if _is_function(grid):
            grid = self.asked(grid, {name: meta[name] for name in self.kernel.names if name in meta})
        if not isinstance(grid, Sequence):
            raise Unsupported(f"a Triton kernel's grid that is a {grid.python_type().__name__}")
        sizes = [size.realize(m) for size in grid.items]
        if not 1 <= len(sizes) <= 3 or any(size.python_type() is not int for size in sizes):
            raise Unsupported("a Triton kernel's grid of other than one to three integers")
        return sizes


def _is_function(grid: Variable) -> bool:
    """Whether a grid is a function of the parameters."""
    return not isinstance(grid, (Sequence, Constant, Symbolic, Tensor))


def _options(m: Interpreter, config: Any) -> dict[str, Variable]:
    return {name: m.builder.known(value) for name, value in config.all_kwargs().items()}


def _choice(kernel: Kernel, config: Any, count: int) -> tuple[tuple[str, Any], ...]:
    chosen = tuple(sorted(config.kwargs.items()))
    if count > 1 and not (config.kwargs.keys() <= kernel.constants and all(isinstance(v, _PLAIN) for _, v in chosen)):
        raise Unsupported("a Triton kernel autotuned by what is no plain constant")
    return chosen


def _is_dtype_class(cls: type) -> bool:
    return place_of(cls) == ("triton.language.core", "dtype")


def _guard(m: Interpreter, kernel: Kernel) -> list[str]:
    """What the kernel is made of stays so: gives the texts of its functions."""
    m.guards.add(known_part(kernel.jit, "pre_run_hooks"), GuardKind.LEN, 0)
    for wrapper in kernel.wrappers:
        m.guards.add(known_part(wrapper, "fn"), GuardKind.ID, wrapper.fn)
        if hasattr(wrapper, "configs"):
            m.guards.add(known_part(wrapper, "configs"), GuardKind.ID, wrapper.configs)
            m.guards.add(known_part(wrapper, "configs"), GuardKind.LEN, len(wrapper.configs))
        else:
            m.guards.add(known_part(wrapper, "values"), GuardKind.DICT_KEYS, tuple(wrapper.values))
    references, texts = references_of(kernel.function)
    refuse_casts(kernel.function.__name__, texts)
    shown = []
    for each in references:
        source = _source(each)
        value = getattr(each.value, "value", None) if type(each.value).__name__ == "constexpr" else each.value
        if value is not each.value:
            m.guards.add(source, GuardKind.ID, each.value)
            source = Attr(source, "value")
        plain = type(value) in CONSTANT_TYPES
        m.guards.add(source, GuardKind.EQUALS if plain else GuardKind.ID, value)
        shown.append(f"{each.name}={value!r}" if plain else each.name)
    return [*texts, *shown]


def _source(reference: Reference) -> Source:
    """Where a kernel's code reads a value."""
    if reference.namespace is None:
        return Attr(Const(reference.cell, reference.name), "cell_contents")
    return ModuleGlobal(str(reference.namespace.get("__name__", "?")), reference.name, reference.namespace)


@builds_where(is_kernel_class)
def _build_kernel(m: Interpreter, value: Any, source: Source | None) -> Variable:
    return m.builder.identified(TritonKernel(value), source)


@builds_where(is_host_function_class)
def _build_host_function(m: Interpreter, value: Any, source: Source | None) -> Variable:
    return m.builder.identified(HostFunction(value), source)


@builds_where(_is_dtype_class)
def _build_dtype(m: Interpreter, value: Any, source: Source | None) -> Variable:
    return m.builder.identified(TritonDtype(value), source)


@handles("torch._library.triton.wrap_triton")
def _wrap_triton(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """Outside of a trace of torch's own it gives the kernel back."""
    found = (args[0] if args else kwargs["triton_kernel"]).realize(m)
    if not isinstance(found, TritonKernel) or type(found.value).__name__ not in ("JITFunction", "Autotuner"):
        raise Unsupported("wrap_triton of what it does not take")
    return found
