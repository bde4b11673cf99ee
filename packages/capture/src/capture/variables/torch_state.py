"""Torch's modes and queries: grad mode and autocast as recorded state, tracing and scripting flags as constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from capture import _torch
from capture.errors import Unsupported
from capture.guards import GuardKind
from capture.settings import ANSWERS, SETTERS, SETTINGS

from .base import Args, Interpreter, Kwargs, Variable
from .constants import Constant
from .handlers import Handler, handler_of, handles

#: What the graph records besides the setters of settings.
_ACTIONS = (torch.autocast_increment_nesting, torch.autocast_decrement_nesting, torch.clear_autocast_cache)


def _register() -> None:
    for setter in dict.fromkeys((*_ACTIONS, *(function for function, _ in SETTERS))):
        handles(setter)(_setter(setter))
    for query in dict.fromkeys((*_torch.QUERIES, *(function for function, _ in ANSWERS))):
        handles(query)(_query(query))
    handles(_torch.tracing_state)(lambda m, args, kwargs: Constant(None))


def _setter(function: Any) -> Handler:
    if function is _torch.set_grad_enabled:
        return lambda m, args, kwargs: m.modes.answer(function, args, kwargs) or _set(m, function, args, kwargs)
    return lambda m, args, kwargs: _set(m, function, args, kwargs)


def _query(function: Any) -> Handler:
    return lambda m, args, kwargs: _ask(m, function, args, kwargs)


def _set(m: Interpreter, function: Any, args: Args, kwargs: Kwargs) -> Variable:
    if kwargs:
        raise Unsupported(f"{function.__name__} by keyword")
    if function not in _ACTIONS:
        given = [m.builder.to_python(a) for a in args]
        name = SETTERS.get((function, tuple(given[:-1])))
        if name is None:
            raise Unsupported(f"{function.__name__} of {given[0] if given else 'nothing'}")
        # What depends on it counts from here on, though it meant nothing where the frame began.
        for other, setting in SETTINGS.items():
            if name in setting.only_if:
                _note(m, other)
    m.recorder.state_call(function, args)
    if function in (torch.autocast_increment_nesting, torch.autocast_decrement_nesting):
        return Constant(m.recorder.autocast_nesting)  # the program clears the cache when it reaches 0
    return Constant(None)


#: What the program hears of torch functions, which is other than what is in force for real.
_OF_FUNCTIONS: dict[Any, Callable[[Interpreter, Any], Any]] = {
    _torch.torch_function_depth: lambda m, depth: depth + m.modes.added,
    _torch.in_function_mode: lambda m, on: (
        _torch.torch_function_depth() + m.modes.added > 0 and not (m.modes.modes_off or _torch.all_functions_off())
    ),
    _torch.torch_function_enabled: lambda m, on: on and not m.modes.classes_off,
}


def _ask(m: Interpreter, function: Any, args: Args, kwargs: Kwargs) -> Variable:
    real = [m.builder.to_python(a) for a in args]
    named = {k: m.builder.to_python(v) for k, v in kwargs.items()}
    answer = m.builder.fold(function, real, named)
    m.recorder.asked_grad += function is torch.is_grad_enabled
    asked = (*real, *named.values())  # each takes one argument at most
    if function in _OF_FUNCTIONS:
        answer = _OF_FUNCTIONS[function](m, answer)
    name = ANSWERS.get((function, asked))
    if name is None:
        m.guards.add(None, GuardKind.ANSWER, (function, asked, answer))
    elif SETTINGS[name].only_if:
        _note(m, name)
    return m.builder.from_python(answer)


def _switches() -> None:
    """Those of which nothing else is known."""
    for setter, reader in _torch.SWITCHES.items():
        if handler_of(setter) is not None or handler_of(reader) is not None:
            continue
        handles(setter)(_switching(setter))
        handles(reader)(_reading(reader))
    # Of it all is known: what asks is answered like other questions, and guarded natively.
    handles(_torch.set_default_dtype)(_switching(_torch.set_default_dtype))


def _switching(setter: Any) -> Handler:
    def switch(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        if kwargs or not args:
            raise Unsupported(f"{setter.__name__} by keyword")
        *where, value = (m.builder.to_python(arg) for arg in args)
        m.builder.fold(m.recorder.switch, [setter, tuple(where), value])
        return Constant(None)

    return switch


def _reading(reader: Any) -> Handler:
    def read(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        asked = tuple(m.builder.to_python(arg) for arg in args)
        answer = m.builder.fold(reader, list(asked))
        if kwargs or not (answer is None or _torch.is_plain(answer)):
            raise Unsupported(f"call of {reader.__name__}, which is written in C")
        try:
            before = m.recorder.switches.entered_with(reader, asked)
        except LookupError:
            raise Unsupported(f"{reader.__name__} of {asked}, after others were set") from None
        several = isinstance(before, list)
        told = (listed, asked, tuple(before)) if several else (reader, asked, before)
        m.guards.add(None, GuardKind.ANSWER, told)
        return m.builder.from_python(answer)

    def listed(*asked: Any) -> tuple[Any, ...]:
        return tuple(reader(*asked))

    return read


@handles(_torch.enter_function_mode)
def _enter_mode(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    m.modes.enter(args[0].realize(m))
    return Constant(None)


@handles(_torch.leave_function_mode)
def _leave_mode(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.modes.leave()


@handles(_torch.function_mode_at)
def _mode_at(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.modes.at(m.operators.index(args[0]) - _torch.torch_function_depth() + m.modes.from_outside)


def _note(m: Interpreter, name: str) -> None:
    """A setting counts that is guarded only where others are on; the frame may have set it meanwhile."""
    setting = SETTINGS[name]
    before = m.recorder.entered_with[name] if name in m.recorder.entered_with else setting.read()
    m.guards.add(None, GuardKind.ANSWER, (setting.query, setting.args, before))


_register()
_switches()


def _has_torch_function(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """Plain tensors have no overrides, and other objects that are asked about rarely; a mode is asked about all."""
    return Constant(m.modes.asks(args))


handles(*_torch.OVERRIDE_QUERIES)(_has_torch_function)


@handles(_torch.log_api_usage)
def _log_api_usage(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return Constant(None)


def _tensor_method(name: str) -> Handler:
    return lambda m, args, kwargs: args[0].realize(m).method(m, name, args[1:], kwargs)


handles(torch.is_floating_point)(_tensor_method("is_floating_point"))
handles(torch.is_complex)(_tensor_method("is_complex"))
handles(torch.numel)(_tensor_method("numel"))
handles(torch.is_inference)(_tensor_method("is_inference"))
