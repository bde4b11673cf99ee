"""What torch's own Python says to compilers and profilers: marks without an effect on values, and ranges that nobody records.

In: calls of them. Out: what they come to for the program: the call that they wrap, or nothing.
"""

from __future__ import annotations

import inspect

import torch

from capture._torch import profiling, stream_is_captured
from capture.errors import Unsupported
from capture.guards import Guard, GuardKind
from capture.trace_rules import module_of

from .base import Args, Interpreter, Kwargs, Variable
from .constants import BoundBuiltin, Constant
from .functions import Function
from .handlers import handler_of, handles, handles_wrapper
from .objects import Object

_OFF_AT_EXIT = "run_callbacks_on_exit"


@handles("torch._dynamo.decorators.graph_break")
def _graph_break(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """It asks another compiler to end its graph; nothing comes of it."""
    return Constant(None)


@handles_wrapper("torch._compile._disable_dynamo.<locals>.inner", "fn")
@handles_wrapper("torch._dynamo.eval_frame.DisableContext.__call__.<locals>._fn", "fn")
def _kept_out(m: Interpreter, wrapped: Variable, args: Args, kwargs: Kwargs) -> Variable:
    """What is kept from compilers is called between two graphs. Parts of torch's optimizers are so for torch's own one alone."""
    function = wrapped.realize(m)
    real = function.real if isinstance(function, Function) else None
    known = None if real is None else handler_of(real, module_of(real))
    if known is not None:
        return known(m, args, kwargs)
    if real is None or not f"{module_of(inspect.unwrap(real))}.".startswith("torch.optim."):
        raise Unsupported("call of a function that is kept from compilers (torch.compiler.disable)")
    return m.calls.call(function, args, kwargs)


@handles_wrapper("torch.optim.optimizer._use_grad_for_differentiable.<locals>._use_grad", "func")
def _step(m: Interpreter, wrapped: Variable, args: Args, kwargs: Kwargs) -> Variable:
    """A step of an optimizer, with gradients where it is differentiable; between marks, for which it would import that compiler."""
    defaults = args[0].realize(m).attribute(m, "defaults")
    wanted = defaults.realize(m).item(m, Constant("differentiable"))
    switch = m.builder.known(torch.set_grad_enabled)
    before = m.calls.call(m.builder.known(torch.is_grad_enabled), [], {})
    m.calls.call(switch, [wanted], {})
    try:
        return m.calls.call(wrapped, args, kwargs)
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


@handles("torch.jit.annotate")
def _annotate(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return args[1]


@handles("torch.autograd.profiler.record_function.__enter__")
def _enter(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """A range that the program made itself, while nobody records. Should the graph end within it, it has nothing to tell at its exit."""
    made = _range(args)
    if profiling():
        so = Guard(None, GuardKind.ANSWER, (profiling, (), True))
        raise Unsupported("a range that a profiler records", while_so=(so,))
    m.guards.add(None, GuardKind.ANSWER, (profiling, (), False))
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


def _range(args: Args) -> Object:
    made = args[0]
    if not isinstance(made, Object) or made.source is not None:
        raise Unsupported("a range that was made elsewhere")
    return made
