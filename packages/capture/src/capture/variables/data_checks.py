"""What a program promises of numbers that only the run can tell: ``torch._check`` and its kin become checks in the graph.

In: calls of them. Out: nothing where the promise is kept for certain, a node that checks where only the run can tell.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable

import torch

from capture import config
from capture._torch import CHECKS, check_is_size, check_with, inside
from capture.errors import NotConstant, Unsupported
from symshapes import constrain_range, is_unbacked, require, same_sizes

from .base import Args, Interpreter, Kwargs, Variable
from .constants import Constant
from .functions import Function
from .handlers import handles
from .numbers import Symbolic
from .tensors import Tensor, any_asked_below


def _promise(error: type[Exception]) -> Callable[[Interpreter, Args, Kwargs], Variable]:
    def check(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        named = dict(zip(("cond", "message"), args, strict=False)) | kwargs
        return _require(m, named["cond"].realize(m), named.get("message"), error)

    return check


for _function, _error in CHECKS.items():
    handles(_function)(_promise(_error))


@handles(check_with)
def _check_with(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    named = dict(zip(("error_type", "cond", "message"), args, strict=False)) | kwargs
    error = m.builder.to_python(named["error_type"])
    if error not in CHECKS.values():
        raise Unsupported("a check that raises an exception of the program's own")
    return _require(m, named["cond"].realize(m), named.get("message"), error)


def _require(m: Interpreter, condition: Variable, message: Variable | None, error: type[Exception]) -> Variable:
    words = None if message is None or m.builder.is_none(message) else message.realize(m)
    if isinstance(condition, Symbolic) and condition.python_type() is bool and is_unbacked(condition.value):
        text = _text(m, words)
        if text is None:
            text = f"Expected {condition.value.node.expr} to be True"
        return record_check(m, condition, text, error)
    if condition.python_type() is not bool:
        m.errors.throw(TypeError, f"cond must be a bool, but got {condition.python_type()}")
    if m.operators.truth(condition):
        return Constant(None)
    if words is None:
        m.errors.throw(error, "Expected cond to be True, but got False.")
    said = m.calls.call(words, [], {}).realize(m)
    m.errors.throw(error, m.builder.to_python(m.operators.text(said)))


def record_check(m: Interpreter, condition: Symbolic, text: str, error: type[Exception]) -> Variable:
    """Have the graph raise an error where a condition does not hold."""
    told = [Constant(text), Constant(error.__name__), Constant(m.state.where())]
    return m.recorder.record("call_function", require, [condition, *told], {})


def _text(m: Interpreter, words: Variable | None) -> str | None:
    """The message, where it does not say what only the run can tell."""
    if not isinstance(words, Function):
        return None
    code = words.code
    if code.co_freevars or code.co_names or code.co_argcount or code.co_kwonlyargcount:
        return None
    return str(types.FunctionType(code, {})())


@handles(check_is_size)
def _check_is_size(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    named = dict(zip(("i", "message"), args, strict=False)) | kwargs
    value, end = named["i"].realize(m), kwargs.get("max")
    _require(m, m.operators.compare(">=", value, Constant(0)).realize(m), named.get("message"), RuntimeError)
    if end is None or m.builder.is_none(end):
        return Constant(None)
    return _require(m, m.operators.compare("<=", value, end).realize(m), named.get("message"), RuntimeError)


def _within(m: Interpreter, value: Variable, low: Variable | None, high: Variable | None) -> Variable:
    for end, test in ((low, operator.ge), (high, operator.le)):
        if end is not None and not m.builder.is_none(end):
            sign = ">=" if test is operator.ge else "<="
            _require(m, m.operators.compare(sign, value, end).realize(m), None, RuntimeError)
    return Constant(None)


def _constrain(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    named = dict(zip(("size", "min", "max"), args, strict=False)) | kwargs
    try:
        return _within(m, named["size"].realize(m), named.get("min"), named.get("max"))
    except (KeyError, NotConstant):
        raise Unsupported("a range of a number that cannot be followed") from None


for _name in ("sym_constrain_range", "sym_constrain_range_for_size"):
    if hasattr(torch, _name):
        handles(getattr(torch, _name))(_constrain)


@handles(constrain_range)
def _constrain_range(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """A guard of a symbolic number, or a check where only the run can tell; one that is known is checked now."""
    named = dict(zip(("value", "min", "max"), args, strict=False)) | kwargs
    number = named.pop("value").realize(m)
    ends = {name: m.builder.to_python(end) for name, end in named.items()}
    if isinstance(number, Symbolic) and is_unbacked(number.value):
        words = f"a number is not within {ends.get('min')} to {ends.get('max')}"
        for name, sign in (("min", ">="), ("max", "<=")):
            if ends.get(name) is not None:
                condition = m.operators.compare(sign, number, named[name]).realize(m)
                if isinstance(condition, Symbolic):
                    record_check(m, condition, words, ValueError)
                elif not m.operators.truth(condition):
                    raise Unsupported(words)
        return Constant(None)
    try:
        constrain_range(number.value if isinstance(number, Symbolic) else m.builder.to_python(number), **ends)
    except ValueError as error:  # the program's own: raised where it runs
        raise Unsupported(str(error)) from None
    return Constant(None)


_NAN = torch.full((), float("nan"), device="cpu")
#: Whether a tensor of NaN equals itself, as it does without a look at it.
_ONE_EQUALS_ITSELF = torch.equal(_NAN, _NAN)


@handles(torch.equal)
@handles(torch.ops.aten.equal.default)
def _equal(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """Whether all elements are, where they are looked at: not of two of other sizes, and by some kernels not of two that are one."""
    given = [arg.realize(m) for arg in (*args, *kwargs.values())]
    if any_asked_below(given):
        return m.recorder.record("call_function", torch.equal, args, kwargs)
    tensors = [one for one in given if isinstance(one, Tensor)]
    if len(tensors) != 2 or not config.capture_data_dependent:
        raise Unsupported("torch.equal, whose answer is in the tensors' data")
    first, second = (tensor.fake for tensor in tensors)
    if first.dtype is not second.dtype or first.device != second.device:
        raise Unsupported("torch.equal of tensors that may be unlike")
    if not same_sizes(first, second):
        if any(map(is_unbacked, (*first.shape, *second.shape))):
            raise Unsupported("torch.equal of tensors that may be unlike")
        if tuple(first.shape) != tuple(second.shape):  # which is guarded
            return Constant(False)
    looks = first.device.type == "cpu" and not _ONE_EQUALS_ITSELF
    if not looks and inside(first).storage_key is inside(second).storage_key:
        raise Unsupported("torch.equal of one tensor with itself")
    same = m.recorder.record("call_function", torch.eq, [*tensors], {})
    every = m.recorder.record("call_method", "all", [same], {})
    return m.recorder.record("call_method", "item", [every], {})


@handles(torch.allclose)
@handles(torch.ops.aten.allclose.default)
def _allclose(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """Whether all elements are close, which the program reads: as torch computes it, but for the reading."""
    if any_asked_below(arg.realize(m) for arg in (*args, *kwargs.values())):
        return m.recorder.record("call_function", torch.allclose, args, kwargs)
    if not config.capture_data_dependent:
        raise Unsupported("torch.allclose, whose answer is in the tensors' data")
    close = m.recorder.record("call_function", torch.isclose, args, kwargs)
    every = m.recorder.record("call_method", "all", [close], {})
    return m.recorder.record("call_method", "item", [every], {})


@handles(torch.is_nonzero)
def _is_nonzero(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    value = next(iter([*args, *kwargs.values()])).realize(m)
    if not isinstance(value, Tensor):
        raise Unsupported("torch.is_nonzero of what is no tensor")
    return value.as_number(m, bool)
