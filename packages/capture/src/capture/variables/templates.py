"""The templates that ``t"..."`` makes from 3.14, and what stands between their texts."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Hashable, Iterable
from typing import Any

from .base import Interpreter, Variable
from .reconstruction import Emitter
from .sequences import Tuple

#: Where their classes are; None until 3.14.
templatelib: Any = importlib.import_module("string.templatelib") if sys.version_info >= (3, 14) else None


class _Part(Variable):
    """What is a key by its identity, and true."""

    def hash_key(self, m: Interpreter) -> Hashable:
        return m.identity.key(self)

    def truth(self, m: Interpreter) -> bool:
        return True


class Interpolation(_Part):
    """A value of a template, with how it is written and to be shown."""

    def __init__(self, value: Variable, expression: Variable, conversion: Variable, spec: Variable) -> None:
        self.fields = dict(
            zip(
                ("value", "expression", "conversion", "format_spec"), (value, expression, conversion, spec), strict=True
            )
        )

    def python_type(self) -> type:
        found: type = templatelib.Interpolation
        return found

    def attribute(self, m: Interpreter, name: str) -> Variable:
        return self.fields.get(name) or super().attribute(m, name)

    def made_of(self) -> Iterable[Variable]:
        return self.fields.values()

    def reconstruct(self, e: Emitter) -> None:
        e.call(templatelib.Interpolation, list(self.fields.values()))


class Template(_Part):
    """A template: texts, and what stands between them, one less."""

    def __init__(self, texts: Tuple, between: Tuple) -> None:
        self.texts, self.between = texts, between

    def python_type(self) -> type:
        found: type = templatelib.Template
        return found

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name == "strings":
            return self.texts
        if name == "interpolations":
            return self.between
        if name == "values":
            return m.builder.new_tuple([each.realize(m).attribute(m, "value") for each in self.between.items])
        return super().attribute(m, name)

    def iterate(self, m: Interpreter) -> Variable:
        return m.builder.new_tuple(self._parts(m)).iterate(m)

    def _parts(self, m: Interpreter) -> list[Variable]:
        """All of it in order, without the empty texts."""
        found: list[Variable] = []
        for place, text in enumerate(self.texts.items):
            found += [text] if m.builder.to_python(text) else []
            found += self.between.items[place : place + 1]
        return found

    def made_of(self) -> Iterable[Variable]:
        return (self.texts, self.between)

    def reconstruct(self, e: Emitter) -> None:
        e.call(again, [self.texts, self.between])


def again(texts: tuple[str, ...], between: tuple[Any, ...]) -> Any:
    """A template made again of what it has; called from generated code."""
    return templatelib.Template(*(each for pair in zip(texts, between, strict=False) for each in pair), texts[-1])
