"""What torch's own Python says to devices and profilers: marks without an effect on values, and ranges that nobody records.

In: calls of them. Out: what they come to for the program: the call that they wrap, or nothing.
"""

from __future__ import annotations

import torch

from capture._torch import RANGE_MARKS, RANGE_QUESTIONS, profiling, stream_is_captured
from capture.errors import Unsupported
from capture.guards import Guard, GuardKind

from .base import Args, Interpreter, Kwargs, Variable
from .constants import BoundBuiltin, Constant
from .handlers import folds, handles, handles_wrapper
from .objects import Object

_OFF_AT_EXIT = "run_callbacks_on_exit"


@handles_wrapper("torch.optim.optimizer._use_grad_for_differentiable.<locals>._use_grad", "func")
def _step(m: Interpreter, held: list[Variable], args: Args, kwargs: Kwargs) -> Variable:
    """A step of an optimizer, with gradients where it is differentiable; between marks, for which it would import that compiler."""
    defaults = args[0].realize(m).attribute(m, "defaults")
    wanted = defaults.realize(m).item(m, Constant("differentiable"))
    switch = m.builder.known(torch.set_grad_enabled)
    before = m.calls.call(m.builder.known(torch.is_grad_enabled), [], {})
    m.calls.call(switch, [wanted], {})
    try:
        return m.calls.call(held[0], args, kwargs)
    finally:
        m.calls.call(switch, [before], {})


# Streams


class CurrentStream(Variable):
    """The accelerator's current stream, of which optimizers ask whether it is captured."""

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name != "is_capturing":
            raise Unsupported(f"Stream.{name}")
        return BoundBuiltin(self, name)

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name != "is_capturing":
            raise Unsupported(f"Stream.{name}()")
        answer = m.builder.fold(stream_is_captured, [])
        m.guards.add(None, GuardKind.ANSWER, (stream_is_captured, (), answer))
        return Constant(answer)


@handles("torch.accelerator.current_stream")
def _current_stream(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    if args or kwargs:
        raise Unsupported("the current stream of a given device")
    made: Variable = m.effects.created(CurrentStream())
    return made


# Ranges


@handles("torch.autograd.profiler.record_function.__enter__")
def _enter(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """A range that the program made itself, while nobody records. Should the graph end within it, it has nothing to tell at its exit."""
    made = _range(args)
    _nobody_records(m)
    made.set_attribute(m, _OFF_AT_EXIT, Constant(False))
    return made


@handles("torch.autograd.profiler.record_function.__exit__")
def _exit(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    made = args[0].realize(m)
    if m.operators.truth(made.attribute(m, _OFF_AT_EXIT)):
        raise Unsupported("the end of a range that was begun elsewhere")
    if made.source is None:
        made.set_attribute(m, _OFF_AT_EXIT, Constant(True))
    return Constant(None)


@handles_wrapper("contextlib.ContextDecorator.__call__.<locals>.inner", "func", "self")
def _decorated(m: Interpreter, held: list[Variable], args: Args, kwargs: Kwargs) -> Variable | None:
    """A function within a range, which the range's object, made elsewhere, is to know nothing of while nobody records."""
    manager = held[1].realize(m)
    if not isinstance(manager, Object) or manager.cls is not torch.autograd.profiler.record_function:
        return None
    _nobody_records(m)
    return m.calls.call(held[0], args, kwargs)


def _nobody_records(m: Interpreter) -> None:
    if profiling():
        so = Guard(None, GuardKind.ANSWER, (profiling, (), True))
        raise Unsupported("a range that a profiler records", while_so=(so,))
    m.guards.add(None, GuardKind.ANSWER, (profiling, (), False))


def _range(args: Args) -> Object:
    made = args[0]
    if not isinstance(made, Object) or made.source is not None:
        raise Unsupported("a range that was made elsewhere")
    return made


folds(*RANGE_QUESTIONS)  # whether they are built in


class RangeNumber(Variable):
    """How deep a range of another vendor's profiler is, or its handle: nobody counts what is not begun, so a use of it breaks the graph."""


@handles(*RANGE_MARKS)
def _mark(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """Ranges of NVTX and ITT, which nobody can be asked about whether he records them: nothing in a graph."""
    made: Variable = m.effects.created(RangeNumber())
    return made
