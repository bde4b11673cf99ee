"""What torch's own Python says to torch's own compiler and to TorchScript, by the effect that it has on a program: mostly none.

In: calls of such functions, and functions wrapped by them. Out: the call that they wrap, nothing, or the end of the graph.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterable
from typing import Any

from capture import _native
from capture._torch import ScriptFunction, jit_isinstance
from capture.compiled_module import DisabledModule
from capture.errors import Unsupported
from capture.guards import GuardKind
from capture.kept_out import kept_out, refusal
from capture.sources import Source
from capture.trace_rules import module_of

from .base import Args, Interpreter, Kwargs, Variable
from .building import builds, known_part
from .constants import Constant, Known
from .functions import Function
from .handlers import handler_of, handles, handles_wrapper
from .objects import Object
from .reconstruction import Emitter

_DYNAMO = "torch._dynamo"

# Nothing


@handles(
    # Where another compiler ends its graph, or how it captures what follows.
    f"{_DYNAMO}.decorators.graph_break",
    f"{_DYNAMO}.decorators.skip_frame",
    f"{_DYNAMO}.decorators.step_unsupported",
    # A promise about a tensor's address, for recordings of another compiler.
    f"{_DYNAMO}.decorators.mark_static_address",
    "torch.compiler.cudagraph_mark_step_begin",
)
def _nothing(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return Constant(None)


_SETTINGS = ("ErrorOnGraphBreakDecoratorContextManager", "DynamoConfigPatchProxy")


def _settings(m: Interpreter, maker: str, args: Args, kwargs: Kwargs) -> Variable:
    """A block within which that compiler is set otherwise, if it knows the setting."""
    m.builder.fold(
        sys.modules[f"{_DYNAMO}.decorators"].__dict__[maker],
        [m.builder.to_python(a) for a in args],
        {name: m.builder.to_python(a) for name, a in kwargs.items()},
    )
    return m.calls.call(m.builder.known(contextlib.nullcontext), [], {})


for _maker in ("error_on_graph_break", "patch_dynamo_config"):
    handles(f"{_DYNAMO}.decorators.{_maker}")(
        lambda m, args, kwargs, maker=_maker: _settings(m, maker, args, kwargs)  # type: ignore[misc]
    )


@handles(*(f"{_DYNAMO}.decorators.{cls}.{method}" for cls in _SETTINGS for method in ("__enter__", "__exit__")))
def _enter_or_exit(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return Constant(None)


# Wrappers


@handles_wrapper(f"{_DYNAMO}.eval_frame._TorchDynamoContext.__call__.<locals>.compile_wrapper", "fn")
@handles_wrapper(f"{_DYNAMO}.external_utils.wrap_inline.<locals>.inner", "fn")
@handles_wrapper(f"{_DYNAMO}.external_utils.wrap_dunder_call_ctx_manager.<locals>.inner", "func")
@handles_wrapper(f"{_DYNAMO}.decorators.nonstrict_trace.<locals>.wrapped", "traceable_fn")
@handles_wrapper("torch.jit._trace._script_if_tracing.<locals>.wrapper", "fn")
def _what_is_wrapped(m: Interpreter, held: list[Variable], args: Args, kwargs: Kwargs) -> Variable:
    """A function compiled by another compiler, or kept for one, is part of the graph as it is."""
    return m.calls.call(held[0], args, kwargs)


@handles(f"{_DYNAMO}.eval_frame.OptimizedModule.__call__")
def _optimized_module(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.calls.call(args[0].realize(m).attribute(m, "forward"), args[1:], kwargs)


@handles(f"{_DYNAMO}.eval_frame.OptimizedModule.__getattr__")
def _of_original(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    module, name = args[0].realize(m), m.builder.to_python(args[1])
    modules = module.attribute(m, "_modules").realize(m)
    original = modules.item(m, Constant("_orig_mod"))
    return original if name == "_orig_mod" else original.realize(m).attribute(m, name)


@handles_wrapper("torch._compile._disable_dynamo.<locals>.inner", "fn")
def _kept_for_torch(m: Interpreter, held: list[Variable], args: Args, kwargs: Kwargs) -> Variable:
    return _kept_out(m, held[0], None, args, kwargs)


@handles_wrapper(f"{_DYNAMO}.eval_frame.DisableContext.__call__.<locals>._fn", "fn", "self")
def _disabled(m: Interpreter, held: list[Variable], args: Args, kwargs: Kwargs) -> Variable:
    context = held[1].realize(m)
    reason = context.attribute(m, "msg").realize(m) if isinstance(context, Object) else Constant(None)
    return _kept_out(m, held[0], reason.value if isinstance(reason, Constant) else None, args, kwargs)


@handles_wrapper(
    f"{_DYNAMO}.external_utils.get_nonrecursive_disable_wrapper.<locals>.nonrecursive_disable_wrapper", "fn"
)
def _kept_out_alone(m: Interpreter, held: list[Variable], args: Args, kwargs: Kwargs) -> Variable:
    raise Unsupported(refusal(None))


def _kept_out(m: Interpreter, wrapped: Variable, reason: str | None, args: Args, kwargs: Kwargs) -> Variable:
    """What is kept from compilers is called between two graphs. Parts of torch's optimizers are so for torch's own one alone."""
    function = wrapped.realize(m)
    real = function.real if isinstance(function, Function) else None
    known = None if real is None else handler_of(real, module_of(real))
    if known is not None:
        return known(m, args, kwargs)
    if real is None or not f"{module_of(inspect.unwrap(real))}.".startswith("torch.optim."):
        raise Unsupported(refusal(reason))
    return m.calls.call(function, args, kwargs)


# Functions that are kept out, as values


class KeptOut(Known):
    """A function from outside that is kept out: to be handed on, not called."""

    def truth(self, m: Interpreter) -> bool:
        return True

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        raise Unsupported(refusal(vars(self.value).get("reason")))

    def attribute(self, m: Interpreter, name: str) -> Variable:
        raise Unsupported(f"attribute {name!r} of a function that is kept out of graphs")


class KeptOutModule(Variable):
    """A module that is kept out: in all but its calls the original."""

    def __init__(self, original: Variable, reason: str | None) -> None:
        self.original = original
        self.reason = reason

    def python_type(self) -> type:
        return self.original.python_type()

    def truth(self, m: Interpreter) -> bool:
        return self.original.truth(m)

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name in ("forward", "__call__"):
            raise Unsupported(f"attribute {name!r} of a module that is kept out of graphs")
        return self.original.attribute(m, name)

    def set_attribute(self, m: Interpreter, name: str, value: Variable) -> None:
        self.original.set_attribute(m, name, value)

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        raise Unsupported(refusal(self.reason))


@builds(DisabledModule, subclasses=True)
def _build_disabled_module(m: Interpreter, value: Any, source: Source | None) -> Variable:
    if source is not None:
        m.guards.add(source, GuardKind.ID, value)
    original = m.builder.wrap(value.original, known_part(value, "original")).realize(m)
    return KeptOutModule(original, value.reason)


class MadeKeptOut(Variable):
    """One that the frame itself made: ``maker(function)``."""

    def __init__(self, maker: Any, function: Variable) -> None:
        self.maker = maker
        self.function = function

    def truth(self, m: Interpreter) -> bool:
        return True

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        raise Unsupported(refusal(None))

    def made_of(self) -> Iterable[Variable]:
        return (self.function,)

    def reconstruct(self, e: Emitter) -> None:
        e.call(self.maker, [self.function])


@builds(_native.DisabledCallable)
def _build_disabled(m: Interpreter, value: Any, source: Source | None) -> Variable:
    return m.builder.identified(KeptOut(value), source)


def keeps_out(name: str, maker: Callable[[], Any]) -> None:
    """Register the place of a function that makes one that is kept out, of a function; and how it is had."""

    @handles(name)
    def make(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        function = args[0].realize(m) if len(args) == 1 and not kwargs else None
        if not isinstance(function, Function) or (function.real is not None and kept_out(function.real) is not None):
            raise Unsupported(f"{name} of what is no plain function")
        made: Variable = m.effects.created(MadeKeptOut(maker(), function))
        return made


keeps_out("torch.compiler.disable", lambda: sys.modules["torch.compiler"].disable)  # loaded by who calls it


# TorchScript


@handles("torch.jit.annotate")
def _annotate(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return args[1]


@handles("torch.jit.isinstance")
def _isinstance(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.calls.call(m.builder.known(jit_isinstance), args, kwargs)


class Scripted(Known):
    """A function compiled by ``torch.jit.script``, which is the Python function that it was made of."""

    def truth(self, m: Interpreter) -> bool:
        return True

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        own = vars(self.value)
        original = own.get("_torchdynamo_inline")
        if original is None or "__name__" not in own:  # which a script is given, and a trace is not
            # A trace does not decide anew what it decided when it was made.
            raise Unsupported("call of a TorchScript function that was traced or loaded")
        return m.calls.call(m.builder.known(original), args, kwargs)


@builds(ScriptFunction)
def _build_scripted(m: Interpreter, value: Any, source: Source | None) -> Variable:
    return m.builder.identified(Scripted(value), source)
