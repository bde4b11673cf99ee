"""What calls of real callables mean: one table of handlers, in which each family of values has its rows.

In: a class, a function or method written in C, or a Python function. Out: what its call does in the evaluation, by the first of these that is there:

1. the handler registered for the object itself, by ``handles``, ``folds`` or ``refuses``; a Python function must still run the code that it had then;
2. of a Python function, the handler registered for the name of the place where its code stands, ``"module.qualname"``;
3. what its kind does: torch's operations are recorded in the graph, methods written in C are those of the value that they are called on, classes make an
   instance and initialise it, Python functions are evaluated into the graph; whatever else is written in C breaks it.
"""

from __future__ import annotations

import collections
import enum
import functools
import inspect
import itertools
import operator
import types
from collections.abc import Callable
from math import inf
from typing import Any

from capture._native import address, function_code
from capture.errors import NotConstant, Unsupported
from capture.trace_rules import module_of
from symshapes import dataclass

from .base import Args, Interpreter, Kwargs, Variable

#: Takes the interpreter and the arguments, not looked at yet; gives the call's result.
Handler = Callable[[Interpreter, Args, Kwargs], Variable]

#: Takes the interpreter, the function that is wrapped (and what else is held), and the arguments; gives the call's result, or None
#: where it is for the function's own code to say.
WrapperHandler = Callable[..., Variable | None]

#: By the object, or by the name of the place of a Python function's code.
_HANDLERS: dict[Any, Handler] = {}
#: The code that those Python functions ran which are registered as objects.
_CODE: dict[types.FunctionType, types.CodeType] = {}


@dataclass(frozen=True)
class Fold:
    """The handler of what is called for real, on values that are known entirely; symbolic numbers are fixed, with guards."""

    function: Any

    def __call__(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        seen: set[int] = set()
        for value in (*args, *kwargs.values()):
            value.realize(m).settle(m, seen)
        try:
            real = [m.builder.to_python(a) for a in args]
            named = {k: m.builder.to_python(v) for k, v in kwargs.items()}
        except NotConstant:
            raise Unsupported(f"{label(self.function)} of a value that is not constant") from None
        if any(isinstance(v, enum.Enum) and not isinstance(v, (int, float, str)) for v in (*real, *named.values())):
            raise Unsupported(
                f"{label(self.function)} of a member of an enumeration, which may have methods of its own"
            )
        return m.builder.from_python(m.builder.fold(self.function, real, named))


@dataclass(frozen=True)
class Wrapper:
    """The handler of functions that wrap another, which the first of their variables `held` is."""

    held: tuple[str, ...]
    handler: WrapperHandler

    def __call__(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        raise AssertionError("which function it wraps must be known first")


def handles(*callables: Any) -> Callable[[Handler], Handler]:
    """Register what calls of these objects mean; a string is the name of the place of a Python function's code.

    Raises ``ValueError`` for one that has a handler.
    """

    def register(handler: Handler) -> Handler:
        for each in callables:
            _add(each, handler)
        return handler

    return register


def handles_wrapper(place: str, *held: str) -> Callable[[WrapperHandler], WrapperHandler]:
    """Register what calls of those Python functions mean that are made at a place, one for each function that they wrap.

    The handler gets the wrapped function, too: what the first variable in `held` of the enclosing function is; and the others.
    """

    def register(handler: WrapperHandler) -> WrapperHandler:
        _add(place, Wrapper(held, handler))
        return handler

    return register


def folds(*callables: Any) -> None:
    """Register functions whose result depends on nothing but their arguments, and which change nothing.

    Which must be true whatever the arguments are, as long as they are known: say beside the row why it is.
    """
    for each in callables:
        _add(each, _fold_later if isinstance(each, str) else Fold(each))


def refuses(*callables: Any, why: str) -> None:
    """Register what is never evaluated: a call breaks the graph, for the reason given."""

    def refuse(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        raise Unsupported(why)

    handles(*callables)(refuse)


def unregister(*callables: Any) -> None:
    """Take handlers away again; raises ``KeyError`` where there is none."""
    for each in callables:
        del _HANDLERS[_key(each)]
        _CODE.pop(each, None)


def _add(key: Any, handler: Handler) -> None:
    is_python = isinstance(key, types.FunctionType)
    if _key(key) in _HANDLERS or (is_python and _place(key, module_of(key)) in _HANDLERS):
        raise ValueError(f"{key if isinstance(key, str) else label(key)} has a handler already")
    _HANDLERS[_key(key)] = handler
    if is_python:
        _CODE[key] = key.__code__


def _fold_later(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    raise AssertionError("which function it is must be known first")


def handler_of(function: Any, module: str = "") -> Handler | None:
    """The handler of a callable, if it has one. ``module`` is that of a Python function's code, if that is sure (``module_of``)."""
    try:
        found = _HANDLERS.get(_key(function))
    except TypeError:  # it has no hash
        return None
    if not isinstance(function, types.FunctionType):
        return found
    if found is not None and function_code(function) is _CODE[function]:
        return found
    found = _HANDLERS.get(_place(function, module)) if module else None
    return Fold(function) if found is _fold_later else found


def _key(key: Any) -> Any:
    """What the table has it under. A class is itself alone, whatever its metaclass says of hashes and equality."""
    return address(key) if issubclass(type(key), type) else key


def _place(function: types.FunctionType, module: str) -> str:
    return f"{module}.{function_code(function).co_qualname}"


def checked_arguments(function: Any, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
    """The arguments, with those by position that may be; raises ``Unsupported`` with Python's message where a callable does not take them."""
    signature = _signature(function)
    if signature is None:
        least, most, names = _COUNTS.get(_key(function), (0, float("inf"), None))
        if not least <= len(args) <= most or (names is not None and not kwargs.keys() <= names):
            raise Unsupported(f"{label(function)} with {len(args)} arguments and {sorted(kwargs)}")
        return args, kwargs
    least, most = signature[1:]
    if not kwargs and least <= len(args) <= most:
        return args, kwargs
    try:
        bound = signature[0].bind(*args, **kwargs)
    except TypeError as error:
        raise Unsupported(f"{label(function)}: {error}") from None
    return list(bound.args), bound.kwargs


#: Built-ins that tell no signature: how many positional arguments they take, and which names.
_COUNTS: dict[Any, tuple[int, float, frozenset[str] | None]] = {
    _key(each): (least, most, None if names is None else frozenset(names.split()))
    for each, least, most, names in (
        (iter, 1, 2, ""), (next, 1, 2, ""), (getattr, 2, 3, ""), (vars, 0, 1, ""), (dir, 0, 1, ""), (map, 2, inf, ""),
        (filter, 2, 2, ""), (zip, 0, inf, "strict"), (range, 1, 3, ""), (slice, 1, 3, ""), (set, 0, 1, ""), (frozenset, 0, 1, ""),
        (type, 1, 3, ""), (super, 0, 2, ""), (min, 1, inf, "key default"), (max, 1, inf, "key default"), (bool, 0, 1, ""),
        (reversed, 1, 1, ""), (enumerate, 1, 2, "start"), (list, 0, 1, ""), (tuple, 0, 1, ""), (str, 0, 3, "object encoding errors"),
        (int, 0, 2, "base"), (float, 0, 1, ""), (complex, 0, 2, "real imag"), (bytes, 0, 3, "source encoding errors"),
        (functools.reduce, 2, 3, ""), (dict, 0, 1, None), (functools.partial, 1, inf, None), (functools.cmp_to_key, 1, 1, ""),
        (itertools.chain, 0, inf, ""), (itertools.islice, 2, 4, ""), (itertools.product, 0, inf, "repeat"),
        (itertools.repeat, 1, 2, "times"), (itertools.zip_longest, 0, inf, "fillvalue"),
        (collections.deque, 0, 2, "iterable maxlen"), (collections.defaultdict, 0, 2, None),
        (operator.attrgetter, 1, inf, ""), (operator.itemgetter, 1, inf, ""), (operator.methodcaller, 1, inf, None),
    )
}  # fmt: skip


@functools.cache
def _signature(function: Any) -> tuple[inspect.Signature, int, float] | None:
    """A function's signature, how many positional arguments it needs and how many it takes."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return None
    kinds = [(p.kind, p.default) for p in signature.parameters.values()]
    positional = [default for kind, default in kinds if kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD]
    least = sum(default is inspect.Parameter.empty for default in positional)
    takes_any = any(kind is inspect.Parameter.VAR_POSITIONAL for kind, _ in kinds)
    return signature, least, float("inf") if takes_any else len(positional)


def label(function: Any) -> str:
    """A callable's full name, for messages."""
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", repr(function))
    return f"{module}.{name}" if module and module != "builtins" else str(name)
