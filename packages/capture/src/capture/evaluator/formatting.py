"""``%`` and ``str.format`` where not all values are known: each value's text is asked for as the language does."""

from __future__ import annotations

import re
import string
from _string import formatter_field_name_split  # type: ignore[import-not-found]
from collections.abc import Iterator

from capture.errors import Unsupported
from capture.variables.base import Args, Interpreter, Kwargs, Variable
from capture.variables.constants import Constant
from capture.variables.lookups import has_entry
from capture.variables.sequences import Tuple

_CONVERSION = re.compile(
    r"%(?:\((?P<key>[^()]*)\))?(?P<flags>[#0\- +]*)(?P<width>\d*)(?P<precision>(?:\.\d*)?)[hlL]?(?P<kind>.)", re.DOTALL
)
_TEXTS = {"s": "str", "r": "repr"}


def percent(m: Interpreter, text: str, given: Variable) -> str:
    """``text % given``; a call that Python refuses raises ``Unsupported``."""
    part = given.payload or given
    values: Iterator[Variable] = iter(part.items if isinstance(part, Tuple) else [given])
    is_mapping = has_entry(given.python_type(), "__getitem__") and not issubclass(given.python_type(), (tuple, str))
    by_key = False
    pieces: list[str] = []  # a text that is but one of them is that one

    def written(found: re.Match[str]) -> str:
        nonlocal by_key
        kind = found["kind"]
        if kind == "%":
            return "%"
        if found["key"] is not None:
            by_key = True
            if not is_mapping:
                m.errors.throw(TypeError, "format requires a mapping")
            value: Variable | None = given.item(m, Constant(found["key"]))
        else:
            value = next(values, None)
        if value is None:
            raise Unsupported("a format with too few values")
        spec = f"%{found['flags']}{found['width']}{found['precision']}"
        value = value.realize(m)
        if kind in _TEXTS:
            shown: str = m.builder.fold(
                str.__mod__, [spec + "s", (m.builder.to_python(m.operators.text(value, _TEXTS[kind])),)]
            )
            pieces.append(shown)
            return shown
        if not m.builder.is_constant(value):
            raise Unsupported(f"%{kind} of a value that is not constant")
        known: str = m.builder.fold(str.__mod__, [spec + kind, (m.builder.to_python(value),)])
        pieces.append(known)
        return known

    if "*" in text:
        raise Unsupported("a width among the values of a format")
    made = _CONVERSION.sub(written, text)
    if not by_key and not is_mapping and next(values, None) is not None:
        raise Unsupported("a format with too many values")
    return made if any(made is each for each in (text, *pieces)) else m.builder.made(made)


def by_fields(m: Interpreter, text: str, args: Args, kwargs: Kwargs) -> str:
    """``text.format(*args, **kwargs)``."""
    return _Fields(m, args, kwargs).format(text)


class _Fields:
    """The values of one call, and how many were taken without a number."""

    def __init__(self, m: Interpreter, args: Args, kwargs: Kwargs) -> None:
        self._m = m
        self._args = args
        self._kwargs = kwargs
        self._taken = 0

    def format(self, text: str, depth: int = 2) -> str:
        """The text with its fields filled in."""
        m = self._m
        if depth < 0:
            raise Unsupported("fields nested too deep")
        out: list[str] = []
        for literal, field, spec, conversion in m.builder.fold(
            lambda given: list(string.Formatter().parse(given)), [text]
        ):
            out.append(literal)
            if field is None:
                continue
            value = self._value(field)
            if conversion == "a":
                value = m.calls.call(m.builder.known(ascii), [value], {})
            elif conversion:
                value = m.operators.text(value, {"s": "str", "r": "repr"}[conversion])
            out.append(m.builder.to_python(m.operators.format(value, self.format(spec or "", depth - 1))))
        return str(m.builder.fold("".join, [out]))

    def _value(self, field: str) -> Variable:
        m = self._m
        first, rest = m.builder.fold(formatter_field_name_split, [field])
        if first == "":
            first, self._taken = self._taken, self._taken + 1
        named: Variable | None = self._kwargs.get(first) if isinstance(first, str) else None
        if isinstance(first, int) and first < len(self._args):
            named = self._args[first]
        if named is None:
            raise Unsupported("a format with too few values")
        value = named.realize(m)
        for is_attribute, key in rest:
            value = (value.attribute(m, key) if is_attribute else value.item(m, Constant(key))).realize(m)
        return value
