"""Tensors of classes that are asked below autograd (``__torch_dispatch__``): sizes, attributes, and no memory of their own.

In: such tensors from outside, and those made by ``_make_wrapper_subclass``. Out: variables of which the graph holds nothing but what
their classes compute with: an operation on one is what its class makes of it, evaluated as the program's code (``evaluator.below_autograd``).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import torch

from capture import _torch
from capture.bytecode import build
from capture.errors import Unsupported
from capture.plain_tensors import size_of
from capture.sources import Applied, Source
from capture.tensor_attributes import device_of, dtype_of, is_nested, is_quantized, layout_of, requires_grad
from symshapes import facts_of

from . import autograd_state
from .base import Args, Interpreter, Kwargs, Variable
from .building import builds
from .constants import Constant, looked_up
from .handlers import handles
from .lookups import class_lookup, is_of_program
from .reconstruction import CannotReconstruct, Emitter
from .sequences import List, Tuple
from .subclasses import SubclassTensor, check_class, check_followed, check_unseen_where_saved
from .tensors import Tensor, input_tensor, noting_refusal


class AskedBelow(Unsupported):
    """Signal: an operation on a tensor whose class says below autograd what it comes to."""


def dispatch_of(m: Interpreter, cls: type) -> Any:
    """The function of the program's that a class has for ``__torch_dispatch__``; None where it has another or none."""
    raw = class_lookup(m, cls, "__torch_dispatch__")[0]
    return raw if isinstance(raw, classmethod) and is_of_program(raw.__func__) else None


class WrapperTensor(SubclassTensor):
    """One of these tensors. ``options`` are what one was made with that the frame made."""

    def __init__(self, fake: torch.Tensor, cls: type, options: dict[str, Variable] | None = None) -> None:
        super().__init__(None, fake, cls)  # type: ignore[arg-type]  # the graph holds none
        self.options = options
        #: Whether eager has more of it than is made again: what it is a view of, that it is of inference mode.
        self.has_history = False
        #: How often it was written to: autograd counts that, and what it is made of is written to on its own.
        self.writes = 0
        #: The one with which it is counted, as a view is with what it is a view of.
        self.counted_with: WrapperTensor | None = None

    def as_argument(self, m: Interpreter) -> tuple[Any, Any]:
        raise AskedBelow(f"tensor subclass {self.cls.__name__}, whose operations are not followed here")

    def torch_attribute(self, m: Interpreter, name: str) -> Variable:
        if name in autograd_state.READ:
            raise Unsupported(f"Tensor.{name} of tensor subclass {self.cls.__name__}")
        return super().torch_attribute(m, name)

    def put(self, m: Interpreter, name: str, value: Variable) -> None:
        autograd_state.give(m, self, name, value.realize(m))

    def note_writes(self, m: Interpreter, times: int) -> None:
        """It was written to, so many times; the class has done it."""
        if self.counted_with is not None:
            self.counted_with.note_writes(m, times)
            return
        self.writes += times
        m.effects.mutated(self)

    def replay(self, e: Emitter) -> None:
        super().replay(e)
        for _ in range(self.writes):
            e.call_discarding(torch.autograd.graph.increment_version, [self])

    def special_method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name == "requires_grad_" and len(args) <= 1 and kwargs.keys() <= {"requires_grad"}:
            wanted = (*args, *kwargs.values(), Constant(True))[0]
            if m.operators.truth(wanted) is self.fake.requires_grad:
                return self
        if name in autograd_state.CALLED:
            raise Unsupported(f"{name}() of tensor subclass {self.cls.__name__}")
        return super().special_method(m, name, args, kwargs)

    def truth(self, m: Interpreter) -> bool:
        if self.has_own(m, "__bool__"):
            return super().truth(m)
        raise Unsupported(f"truth value of tensor subclass {self.cls.__name__}")

    def as_number(self, m: Interpreter, cls: type) -> Variable:
        if self.has_own(m, f"__{cls.__name__}__"):
            return super().as_number(m, cls)
        raise Unsupported(f"{cls.__name__}() of tensor subclass {self.cls.__name__}")

    def is_index(self) -> bool:
        return False

    def number(self, m: Interpreter, name: str, args: list[Any], value: Any, kwargs: Any = None) -> Variable:
        if not isinstance(value, torch.SymInt):
            return super().number(m, name, args, value, kwargs)
        if name == "size" and len(args) == 1:
            sizes = self.options["size"].realize(m) if self.options is not None else None
            if isinstance(sizes, (Tuple, List)):
                return sizes.items[args[0]].realize(m)
            if self.source is not None and self.value is not None:
                return m.recorder.size_input(value, Applied(self.source, size_of, args[0] % self.fake.dim()))
        if name in ("numel", "nelement"):
            lengths = [self.measure(m, "size", [Constant(dim)], {}) for dim in range(self.fake.dim())]
            return functools.reduce(lambda left, right: m.operators.binary("*", left, right).realize(m), lengths)
        m.recorder.takes_no_symbols()
        raise Unsupported(f"Tensor.{name} of tensor subclass {self.cls.__name__}, which follows from a symbol")

    def made_of(self) -> Iterable[Variable]:
        if self.options is None or self.has_history:
            raise CannotReconstruct(
                self,
                f"tensor subclass {self.cls.__name__}, of which autograd knows more than is made again: a view, say",
            )
        return (*self.options.values(), *self.given.values())

    def reconstruct(self, e: Emitter) -> None:
        options = self.options or {}
        e.emit(build.push_callable(build.load_const(_made)), build.load_const(self.cls))
        e.emit(build.load_const(self.writes), build.load_const(tuple(options)), build.load_const(tuple(self.given)))
        count = e.load_many([*options.values(), *self.given.values()])
        e.emit(build.call(4 + count))

    def __repr__(self) -> str:
        return f"<tensor subclass {self.cls.__name__}>"


def _made(cls: type, writes: int, options: tuple[str, ...], attributes: tuple[str, ...], *values: Any) -> torch.Tensor:
    """A tensor of such a class with attributes, written to so often; no class is asked. `values` are first those of the options, in this order."""
    made = _torch.make_wrapper_subclass(cls, **dict(zip(options, values, strict=False)))
    for name, value in zip(attributes, values[len(options) :], strict=True):
        object.__setattr__(made, name, value)
    for _ in range(writes):
        torch.autograd.graph.increment_version(made)
    return made


class _Like(torch.Tensor):
    """Has the metadata of a tensor of such a class, of which nobody is asked."""

    __torch_function__ = _torch.NO_OVERRIDE

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        raise AssertionError("there is nothing to compute with")


class _Told(BaseException):
    """Signal: torch asks what a tensor's sizes are, or the like."""


class _Listener(_torch.DispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise _Told


def _says_its_own(value: torch.Tensor) -> bool:
    """Whether its class is asked for its sizes, its layout or its device."""
    try:
        with _torch.without_functions(), _Listener():
            _ = (
                *(each(value) for each in (torch.Tensor.size, torch.Tensor.stride, torch.Tensor.storage_offset)),
                *(each(value) for each in (device_of, layout_of, torch.Tensor.dim)),
            )
    except _Told:
        return True
    return False


@builds(torch.Tensor, subclasses=True)
def _build(m: Interpreter, value: torch.Tensor, source: Source | None) -> Variable:
    cls = type(value)
    with noting_refusal(m, value, source):
        if getattr(cls, "__torch_dispatch__", None) is _torch.NO_DISPATCH or dispatch_of(m, cls) is None:
            check_followed(m, cls)
            check_unseen_where_saved(m)
            with _torch.without_overrides():
                made = input_tensor(m, value, source, SubclassTensor)
        else:
            check_class(m, cls)
            made = _input(m, value, source)
    m.modes.meet()
    return made


def _input(m: Interpreter, value: torch.Tensor, source: Source | None) -> WrapperTensor:
    """The variable of one from outside, which has the metadata that it has now. What its class keeps in it is guarded as it is read."""
    cls = type(value)
    if _says_its_own(value):
        raise Unsupported(f"tensor subclass {cls.__name__}, which says itself what its sizes, layout or device are")
    with _torch.without_functions():
        if layout_of(value) is not torch.strided or is_nested(value) or is_quantized(value):
            raise Unsupported(f"tensor subclass {cls.__name__} of layout {layout_of(value)}")
        if torch.Tensor.storage_offset(value):  # which is not in a tensor's guarded metadata
            raise Unsupported(f"tensor subclass {cls.__name__}, which begins within its storage")
        shape, stride = tuple(torch.Tensor.size(value)), torch.Tensor.stride(value)
        dtype, device, differentiates = dtype_of(value), device_of(value), requires_grad(value)
        inference = torch.Tensor.is_inference(value)
    if source is None:
        raise Unsupported("tensor of unknown origin")
    with _torch.inference_guard(inference), _torch.without_overrides():
        like = _torch.make_wrapper_subclass(
            _Like, shape, strides=stride, dtype=dtype, device=device, requires_grad=differentiates
        )
        fake = m.recorder.outside(value, like, source)
    m.state.followed.add(cls)
    made = WrapperTensor(fake, cls)
    made.value = value
    return made


#: What is made of how such a tensor is asked for; the rest is refused, unless it says nothing.
_METADATA = ("size", "strides", "storage_offset", "dtype", "device")


def _fake(m: Interpreter, size: Any, strides: Any = None, storage_offset: Any = 0, **kind: Any) -> torch.Tensor:
    """Tells sizes and strides, and no more."""
    if strides is None:
        return torch.empty(size, **kind)
    if type(storage_offset) is not int:
        m.recorder.takes_no_symbols()
        raise Unsupported("a tensor subclass that begins where a symbol says")
    if not storage_offset:
        return torch.empty_strided(size, strides, **kind)
    return torch.empty((), **kind).expand(size).as_strided(size, strides, storage_offset)


@handles(_torch.make_wrapper_subclass)
def _make(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    given = dict(zip(("cls", "size"), args, strict=False)) | kwargs
    cls = looked_up(m, given.pop("cls"))
    if not isinstance(cls, type) or not issubclass(cls, torch.Tensor) or dispatch_of(m, cls) is None:
        raise Unsupported(
            "a tensor subclass made by _make_wrapper_subclass, whose class has no __torch_dispatch__ to follow"
        )
    check_class(m, cls)
    if m.levels.inside:
        raise Unsupported(f"tensor subclass {cls.__name__}, made within a function transform")
    options = {name: value for name, value in given.items() if not m.builder.is_none(value.realize(m))}
    layout = options.pop("layout", None)
    rest = [options.pop(name) for name in given if name in options and name not in _METADATA]
    if "size" not in options or len(args) > 2 or any(map(m.operators.truth, rest)):
        raise Unsupported(f"tensor subclass {cls.__name__}, made to require gradients or to say its own sizes")
    if layout is not None and m.builder.to_python(layout) is not torch.strided:
        raise Unsupported(f"tensor subclass {cls.__name__}, made of another layout")
    fakes = {name: value.realize(m).as_argument(m)[1] for name, value in options.items()}
    fakes.setdefault("device", torch.device("cpu"))
    with _torch.without_functions(), m.recorder.fake_mode:
        fake = _fake(m, **fakes)
    m.modes.meet()
    m.state.followed.add(cls)
    made: WrapperTensor = m.effects.created(WrapperTensor(fake, cls, options))
    made.has_history = torch.is_inference_mode_enabled() is not m.recorder.inference.before
    return made


@handles(_torch.correct_aliasing)
def _correct_aliasing(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """What it gives for an operator: what was written to for one that writes, else what was made, of the same memory where it is a view."""
    function, given, _, made = args
    facts = facts_of(looked_up(m, function))
    if not facts.written:
        if facts.aliases:
            found = made.realize(m)
            if not isinstance(found, WrapperTensor) or found.options is None:
                raise Unsupported("a view of a tensor subclass that is no new one of these")
            found.has_history = True
        return made
    values = m.iteration.elements(given)
    (first, *others), place = facts.written, facts.written[0].position
    if (
        others
        or first.is_list
        or len(facts.returns_written) != 1
        or place is None
        or place >= len(values)
        or facts.reshapes
    ):
        raise Unsupported("a write to a tensor subclass that changes more than one, or its sizes")
    return values[place]


def tensors_among(m: Interpreter, values: Iterable[Variable]) -> list[Tensor]:
    """The tensors among arguments, and within what they contain."""
    found: list[Tensor] = []
    for each in values:
        value = each.realize(m)
        if isinstance(value, Tensor):
            found.append(value)
        else:
            found += tensors_among(m, value.contents(m))
    return found
