"""Values of classes written in C that nothing can change, and that ask nothing else: dates, patterns and matches. What they do is computed for real."""

from __future__ import annotations

import datetime
import json
import os
import pprint
import re
import struct
from collections.abc import Hashable
from typing import Any

from capture.errors import NotConstant, Unsupported
from capture.guards import GuardKind
from capture.sources import Const, Source

from .base import Args, Interpreter, Kwargs, Variable
from .building import builds, converts
from .constants import BoundBuiltin, Constant, Known
from .handlers import Fold, folds, handles
from .objects import Object, build_object

#: Equal ones may be written differently: two are one value to a capture if their representations are one text.
_NUMBERS = (datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone)
#: Of which each is itself.
_OBJECTS = (re.Pattern, re.Match, struct.Struct)
#: What they do that depends on more than themselves: the clock, the zone and the language of the place, and the program's own functions.
_NOT_ALONE = frozenset(
    {
        "now",
        "utcnow",
        "today",
        "astimezone",
        "timestamp",
        "fromtimestamp",
        "strftime",
        "__format__",
        "utcfromtimestamp",
        "sub",
        "subn",
    }
)


class Plain(Known):
    """A value that nothing can change."""

    def truth(self, m: Interpreter) -> bool:
        return bool(m.builder.fold(bool, [self.value]))

    def as_python(self, m: Interpreter) -> Any:
        return self.value

    def hash_key(self, m: Interpreter) -> Hashable:
        found: Hashable = self.value
        return found

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if callable(getattr(type(self.value), name, None)):
            return BoundBuiltin(self, name)
        return m.builder.from_python(m.builder.fold(getattr, [self.value, name]))

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name in ("sub", "subn") and isinstance(self.value, re.Pattern):
            return _substituted(m, self.value, name, args, kwargs)
        if name in _NOT_ALONE:
            raise Unsupported(f"{type(self.value).__name__}.{name}, which depends on time and place")
        try:
            real = [m.builder.to_python(a) for a in args]
            named = {k: m.builder.to_python(v) for k, v in kwargs.items()}
        except NotConstant:
            raise Unsupported(f"{type(self.value).__name__}.{name} of a value that is not constant") from None
        found = m.builder.fold(getattr(self.value, name), real, named)
        if name in ("finditer", "scanner"):
            found = list(found)
            return m.iteration.iterate(m.builder.from_python(found))
        return m.builder.from_python(found)

    def item(self, m: Interpreter, key: Variable) -> Variable:
        return self.method(m, "__getitem__", [key], {})


def _substituted(m: Interpreter, pattern: re.Pattern[Any], name: str, args: Args, kwargs: Kwargs) -> Variable:
    """``pattern.sub``: by text for real; by a function that is called of each match, in order."""
    named = dict(zip(("repl", "string", "count"), args, strict=False)) | kwargs
    by = named.pop("repl").realize(m)
    real = {k: m.builder.to_python(v) for k, v in named.items()}
    if issubclass(by.python_type(), (str, bytes)):
        return m.builder.from_python(m.builder.fold(getattr(pattern, name), [m.builder.to_python(by)], real))
    matches: list[re.Match[Any]] = []

    def note(found: re.Match[Any]) -> Any:
        matches.append(found)
        return found.group()

    m.builder.fold(pattern.sub, [note], real)
    texts = [m.builder.to_python(m.calls.call(by, [m.builder.computed(found)], {})) for found in matches]
    rest = iter(texts)
    return m.builder.from_python(m.builder.fold(lambda: getattr(pattern, name)(lambda _: next(rest), **real), []))


def _register(cls: type) -> None:
    @converts(cls)
    def convert(m: Interpreter, value: Any) -> Variable:
        return Plain(value)

    @builds(cls)
    def build(m: Interpreter, value: Any, source: Source | None) -> Variable:
        made = Plain(value)
        if cls is re.Pattern:
            return m.builder.identified(made, source)
        if source is not None and not isinstance(source, Const):
            if cls in _OBJECTS:  # another one at each call
                return build_object(m, value, source)
            made.source = source
            m.guards.add(source, GuardKind.TYPE, cls)
            text = repr(value)
            m.guards.predicate(made, lambda real: repr(real) == text, f"{{}} is {text}")
        return made


for _cls in (*_NUMBERS, *_OBJECTS):
    _register(_cls)
for _cls in _NUMBERS:
    handles(_cls)(Fold(_cls))
# Bytes and numbers in and out.
folds(struct.pack, struct.unpack, struct.unpack_from, struct.calcsize, struct.Struct)
folds(re.findall, re.split, re.escape)
folds(
    datetime.date.fromisoformat,
    datetime.date.fromordinal, datetime.datetime.strptime, datetime.datetime.combine, datetime.datetime.fromisoformat,
)  # fmt: skip


def _of_data(function: Any) -> None:
    fold = Fold(function)

    @handles(function)
    def read(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        """Data in, text out, or the other way; what it is to call is the program's."""
        for value in kwargs.values():
            real = value.realize(m)
            if not isinstance(real, Constant):
                raise Unsupported(f"{function.__name__} in ways of the program's own")
        return fold(m, args, kwargs)


for _function in (json.dumps, json.loads, pprint.pformat):
    _of_data(_function)


@handles(re.finditer)
def _finditer(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    pattern = m.builder.from_python(m.builder.fold(re.compile, [m.builder.to_python(args[0])]))
    return pattern.method(m, "finditer", args[1:], kwargs)


@handles(os.fspath)
def _fspath(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    path = args[0].realize(m)
    if isinstance(path, Constant) and isinstance(path.value, (str, bytes)):
        return path
    found = path.special(m, "__fspath__") if isinstance(path, Object) else None
    if found is None:
        return Fold(os.fspath)(m, args, kwargs)
    answer = m.calls.call(found, [], {}).realize(m)
    if not issubclass(answer.python_type(), (str, bytes)):
        raise Unsupported(f"__fspath__ that gives {answer!r}")
    return answer
