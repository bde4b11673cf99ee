"""Operations on tensors whose classes are asked below autograd: which operators torch comes to, and what the classes make of each.

In: a call with such tensors. Out: what it gives, as variables. Which operators a call comes to is not said again here: torch makes the call
on stand-ins with the same metadata, and asks about them. With the first question that has no answer yet it is stopped, the class's
``__torch_dispatch__`` is evaluated as any function of the program, and the call made anew.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from capture import _torch
from capture.errors import NotConstant, Unsupported
from capture.settings import AUTOCAST
from capture.variables.base import Args, Interpreter, Kwargs, Variable
from capture.variables.constants import CONSTANT_TYPES, Constant
from capture.variables.mappings import Dict
from capture.variables.numbers import Symbolic
from capture.variables.sequences import List, Tuple
from capture.variables.slices import Slice
from capture.variables.tensors import Tensor
from capture.variables.wrappers import WrapperTensor, tensors_among
from symshapes import SYMBOLIC, is_unbacked

from .numbers_given import NumbersGiven, require_unwritten
from .size_expressions import number_of_sizes

#: The call that is being made on stand-ins, for each thread.
_RUNNING = threading.local()


class _Asked(BaseException):
    """Signal: torch asks what an operator comes to."""

    def __init__(self, function: Any, handed: tuple[Any, ...]) -> None:
        super().__init__()
        self.function = function
        self.handed = handed


class _StandIn(torch.Tensor):
    """Has the metadata of a tensor of the program's."""

    __torch_function__ = _torch.NO_OVERRIDE
    stands_for: Tensor

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, *handed: Any) -> Any:  # type: ignore[override]
        run: _Run = _RUNNING.run
        return run.answer(func, handed)


class _Run:
    """One time that a call is made on stand-ins. ``answers`` are those to the first questions."""

    def __init__(self, m: Interpreter, answers: list[Variable], decided_as: bool = True) -> None:
        self._m = m
        self._answers = answers
        self.asked = 0
        #: Those of arguments. What is answered is not held: with who holds it torch's own code differs.
        self._stand_ins: dict[int, _StandIn] = {}
        self._symbols: dict[int, Variable] = {}
        #: What tensors may be made of that torch makes itself.
        self._of_numbers = NumbersGiven()
        #: The answer to the last question that is a decision only the run can tell, and which way it goes here.
        self.decision: Variable | None = None
        self._decided_as = decided_as
        #: What may change of stand-ins without a question, by their identities.
        self._states: dict[int, tuple[Any, ...]] = {}

    def call(self, function: Callable[..., Any], args: Args, kwargs: Kwargs) -> Any:
        """What the call gives. Raises ``_Asked`` at the first question without an answer."""
        given = [self._argument(arg) for arg in args]
        named = {key: self._argument(arg) for key, arg in kwargs.items()}
        _RUNNING.run = self
        try:
            with _torch.without_functions(), self._m.recorder.as_by_numbers():
                return function(*given, **named)
        finally:
            _RUNNING.run = None

    def answer(self, function: Any, handed: tuple[Any, ...]) -> Any:
        self.asked += 1
        if self.decision is not None:
            raise Unsupported(f"{function} of a tensor subclass, by a decision that only the run can tell")
        if self.asked > len(self._answers):
            raise _Asked(function, handed)
        answer = self._answers[self.asked - 1]
        if isinstance(answer, Symbolic) and answer.python_type() is bool and is_unbacked(answer.value):
            self.decision = answer
            return self._decided_as
        return self.stand_in(answer)

    def _argument(self, variable: Variable) -> Any:
        """What stands for an argument of the call itself."""
        self._of_numbers.note(self._m, variable)
        for each in tensors_among(self._m, [variable]):
            if id(each) not in self._stand_ins:
                made = self._stand_ins[id(each)] = _like(each, each.fake.requires_grad)
                self._states[id(made)] = _state(made)
        return self.stand_in(variable)

    def stand_in(self, variable: Variable) -> Any:
        """A real argument in the place of a variable."""
        value = variable.realize(self._m)
        if isinstance(value, Tensor):
            found = self._stand_ins.get(id(value))
            # Below autograd nothing requires gradients yet: it says so of what it is given back.
            return _like(value, False) if found is None else found
        if isinstance(value, Slice):
            return slice(*[self.stand_in(part) for part in value.parts])
        if isinstance(value, List):
            return [self.stand_in(item) for item in value.items]
        if isinstance(value, Tuple):
            return tuple([self.stand_in(item) for item in value.items])
        fake = value.as_argument(self._m)[1]
        if isinstance(value, Symbolic):
            self._symbols[id(fake.node)] = value
        return fake

    def variable(self, value: Any) -> Variable:
        """The variable of what torch hands on, or gives."""
        m, kind = self._m, type(value)
        if kind in CONSTANT_TYPES:
            return Constant(value)
        if isinstance(value, torch.Tensor):
            return value.stands_for if isinstance(value, _StandIn) else self._of_numbers.variable(m, value)
        if kind in SYMBOLIC and id(value.node) in self._symbols:
            return self._symbols[id(value.node)]
        if isinstance(value, tuple):
            made: Variable = m.effects.created(Tuple([self.variable(item) for item in value], kind))
            return made
        if kind is list:
            made = m.effects.created(List([self.variable(item) for item in value]))
            return made
        if kind is dict:
            made = m.effects.created(Dict({k: (Constant(k), self.variable(v)) for k, v in value.items()}))
            return made
        if kind is torch.SymInt:
            number = number_of_sizes(m, value, [each.stands_for for each in self._stand_ins.values()])
            if number is not None:
                return number
        if kind in SYMBOLIC:
            m.recorder.takes_no_symbols()
        raise Unsupported(f"a {kind.__name__} in an operation on a tensor subclass")

    def gave_argument(self, value: Any) -> bool:
        """Whether a call gave one of its arguments as it was: so it does for certain metadata."""
        return any(value is each for each in self._stand_ins.values()) and _state(value) == self._states[id(value)]

    def note_writes(self) -> None:
        """Tell the variables of arguments how often they were written to. Below autograd nobody counts."""
        if self._m.recorder.is_below_autograd:
            return
        for stand_in in self._stand_ins.values():
            variable = stand_in.stands_for
            if isinstance(variable, WrapperTensor) and not stand_in.is_inference() and stand_in._version:
                variable.note_writes(self._m, stand_in._version)

    def counted_with(self, value: Any) -> WrapperTensor | None:
        """The argument whose count of writes a tensor shares that the call gave, as views do, and what is detached; None where there is none."""
        if self._m.recorder.is_below_autograd or value.is_inference():
            return None
        shared = [each for each in self._stand_ins.values() if not each.is_inference()]
        before = [each._version for each in shared]
        torch.autograd.graph.increment_version(value)
        for each, count in zip(shared, before, strict=True):
            if each._version != count and each is not value and isinstance(each.stands_for, WrapperTensor):
                return each.stands_for
        return None

    def is_view(self, value: Any) -> bool:
        """Whether a tensor that the call gave is a view of what it took."""
        return isinstance(value, torch.Tensor) and value._is_view()


def _state(value: torch.Tensor) -> tuple[Any, ...]:
    return (
        value.requires_grad,
        value.is_leaf,
        value.retains_grad,
        value.shape,
        None if value.is_inference() else value._version,
    )


def _like(tensor: Tensor, differentiates: bool) -> Any:
    fake = tensor.fake
    with _torch.inference_guard(fake.is_inference()):
        made: Any = _torch.make_wrapper_subclass(
            _StandIn, fake.shape, strides=fake.stride(), storage_offset=fake.storage_offset(), dtype=fake.dtype, layout=fake.layout,
            device=fake.device, requires_grad=differentiates,
        )  # fmt: skip
    made.stands_for = tensor
    return made


@contextlib.contextmanager
def _without_autocast(m: Interpreter) -> Iterator[None]:
    """Below autograd nobody casts any more: what autocast makes of a call is among the operators that are asked about."""
    on = [(setter, [Constant(arg) for arg in args]) for setter, args in AUTOCAST if torch.is_autocast_enabled(*args)]
    for setter, args in on:
        m.recorder.state_call(setter, [*args, Constant(False)])
    try:
        if _torch.any_autocast():
            raise Unsupported("a tensor subclass within autocast for a device that no setting is about")
        yield
    finally:
        for setter, args in on:
            m.recorder.state_call(setter, [*args, Constant(True)])


def dispatched(m: Interpreter, function: Callable[..., Any], args: Args, kwargs: Kwargs, *, follows: bool) -> Variable:
    """What a call comes to with tensors whose classes are asked below autograd; `follows`: it may be one that asks for metadata alone."""
    name = getattr(function, "__name__", str(function))
    if m.levels.inside:
        raise Unsupported(f"{name} of a tensor subclass within a function transform")
    tensors = tensors_among(m, (*args, *kwargs.values()))
    if _torch.any_autocast() and any(each.fake.requires_grad for each in tensors):
        raise Unsupported(f"{name} of a tensor subclass within autocast, which keeps what it casts of leaves")
    answers: list[Variable] = []
    #: By identity, tensors whose views need no note: arguments, and what plain operators gave, which the graph has as they are.
    known = {id(each) for each in tensors}
    while True:
        run = _Run(m, answers)
        try:
            result = _called(run, name, function, args, kwargs)
        except _Asked as asked:
            require_unwritten(asked.function, asked.handed[0], _StandIn)
            handed = tuple([run.variable(each) for each in asked.handed])
            with _without_autocast(m):
                answers.append(_answered(m, asked.function, handed, known).realize(m))
            continue
        break
    if run.decision is not None:
        # Handed on as it is, it makes the call give that. Else the call would go another way with the other answer.
        other = _Run(m, answers, decided_as=False)
        if result is not True or _called(other, name, function, args, kwargs) is not False:
            raise Unsupported(f"{name} of a tensor subclass, by a decision that only the run can tell")
        run.note_writes()
        return run.decision
    if not run.asked and not follows and not run.gave_argument(result):
        raise Unsupported(f"{name} of a tensor subclass, about which its class is not asked")
    run.note_writes()
    found = run.variable(result)
    _note_views(run, result, found, known)
    return found


def _called(run: _Run, name: str, function: Callable[..., Any], args: Args, kwargs: Kwargs) -> Any:
    """What a call gives. Raises ``_Asked`` at the first question without an answer, ``Unsupported`` for all else."""
    try:
        return run.call(function, args, kwargs)
    except (_Asked, Unsupported):
        raise
    except NotConstant as error:
        raise Unsupported(f"argument of {name}: {error}") from None
    except Exception as error:
        raise Unsupported(f"{name} of a tensor subclass raises {type(error).__name__}: {error}") from error


def _note_views(run: _Run, result: Any, found: Variable, given: set[int]) -> None:
    """Autograd knows views of tensors of such classes; what is made again would be none."""
    if isinstance(found, (Tuple, List)):
        for one, variable in zip(result, found.items, strict=True):
            _note_views(run, one, variable, given)
    elif isinstance(result, torch.Tensor) and id(found) not in given:
        if run.is_view(result):
            if not isinstance(found, WrapperTensor) or found.options is None:
                raise Unsupported("a view of a tensor subclass that is no new one of these")
            found.has_history = True
        if isinstance(found, WrapperTensor):
            found.counted_with = run.counted_with(result)
            found.has_history |= found.counted_with is not None


def _answered(m: Interpreter, function: Any, handed: tuple[Variable, ...], known: set[int]) -> Variable:
    """What the classes of tensors among the arguments make of an operator, or torch, where there are none."""
    args, kwargs = m.iteration.elements(handed[0]), _named(handed[1:])
    wrappers = [each for each in tensors_among(m, (*args, *kwargs.values())) if isinstance(each, WrapperTensor)]
    if not wrappers:
        given = m.recorder.record("call_function", function, args, kwargs)
        known.update(id(each) for each in tensors_among(m, [given]))
        return given
    if torch.is_grad_enabled() and any(each.fake.requires_grad for each in tensors_among(m, (*args, *kwargs.values()))):
        raise Unsupported(f"{function} of a tensor subclass, of which autograd computes the gradients")
    classes = _in_order([each.cls for each in wrappers])
    asked: Args = [m.builder.known(function), m.builder.new_tuple([m.builder.known(cls) for cls in classes]), *handed]
    for cls in classes:
        with m.recorder.below_autograd():
            found: Variable = m.calls.call(m.builder.known(cls).attribute(m, "__torch_dispatch__"), list(asked), {})
        found = found.realize(m)
        if not (isinstance(found, Constant) and found.value is NotImplemented):
            return found
    raise Unsupported(f"{function} of tensor subclasses, none of which implements it")


def _named(rest: tuple[Variable, ...]) -> Kwargs:
    entries = rest[0].entries if rest and isinstance(rest[0], Dict) else {}
    return {str(key): value for key, (_, value) in entries.items()}


def _in_order(classes: list[type]) -> list[type]:
    """Each class once, one that is made of another before it, as torch asks them."""
    found: list[type] = []
    for cls in classes:
        if not any(each is cls for each in found):
            at = next((at for at, each in enumerate(found) if issubclass(cls, each)), len(found))
            found.insert(at, cls)
    return found
