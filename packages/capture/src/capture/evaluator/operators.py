"""What Python's operators and conversions come to: truth, integers, texts. How operands' classes decide is in ``dispatch``."""

from __future__ import annotations

import builtins
import operator
import sys
import types
import typing
from typing import Any

from capture.errors import NotConstant, Unsupported
from capture.variables.base import Args, Interpreter, Kwargs, Variable
from capture.variables.classes import Class
from capture.variables.constants import Alias, Constant, Known
from capture.variables.enums import EnumMember
from capture.variables.lookups import class_lookup
from capture.variables.mappings import Dict
from capture.variables.named_tuples import NamedTuple
from capture.variables.numbers import Symbolic
from capture.variables.objects import Object
from capture.variables.sequences import List, Tuple
from capture.variables.sets import Set
from capture.variables.tensors import Tensor
from capture.variables.texts import WrittenNumber, WrittenTensor
from symshapes import is_unbacked

from . import dispatch, formatting


def _is_told_plainly(argument: Any) -> bool:
    """Whether the text of what a class has for a parameter runs no code of the program's."""
    plain = isinstance(argument, (type, str, int, types.NoneType, types.EllipsisType, types.GenericAlias))
    return plain or type(argument).__module__ == typing.__name__


class LanguageOperators:
    """Operators on variables, which ``m`` is handed to."""

    def __init__(self, m: Interpreter) -> None:
        self._m = m

    def unary(self, symbol: str, value: Variable) -> Variable:
        """``-value``, ``+value``, ``~value`` or ``abs(value)``."""
        return dispatch.unary(self._m, symbol, value)

    def binary(self, symbol: str, left: Variable, right: Variable) -> Variable:
        """``left <symbol> right``."""
        return dispatch.binary(self._m, symbol, left, right)

    def inplace(self, symbol: str, left: Variable, right: Variable) -> Variable:
        """``left <symbol> right`` with the symbol of an assignment, such as ``+=``; gives the new ``left``."""
        return dispatch.inplace(self._m, symbol, left, right)

    def compare(self, symbol: str, left: Variable, right: Variable) -> Variable:
        """``left <symbol> right`` with the symbol of a comparison."""
        return dispatch.compare(self._m, symbol, left, right)

    def is_(self, left: Variable, right: Variable) -> bool:
        """``left is right``."""
        return dispatch.is_same(self._m, left, right)

    def equal(self, left: Variable, right: Variable) -> bool:
        """Identity or equality, as containers compare."""
        m = self._m
        left, right = left.realize(m), right.realize(m)
        if isinstance(left, Constant) and isinstance(right, Constant):
            return bool(left.value is right.value or left.value == right.value)
        if left is not right and (isinstance(left, Symbolic) or isinstance(right, Symbolic)):
            return self.truth(self.compare("==", left, right))
        return self.is_(left, right) or self.truth(self.compare("==", left, right))

    def truth(self, value: Variable) -> bool:
        """``bool(value)``."""
        return value.realize(self._m).truth(self._m)

    def index(self, value: Variable) -> int:
        """A real integer, as ``operator.index`` gives."""
        m = self._m
        real = value.realize(m)
        if isinstance(real, Symbolic) and real.python_type() is not float:
            return int(real.specialise(m))
        if isinstance(real, Symbolic):
            real.specialise(m)
        if isinstance(real, Object) and isinstance(real.payload, Constant) and isinstance(real.payload.value, int):
            return real.payload.value + 0  # an integer is not asked
        if isinstance(real, Object):
            found = real.call_special(m, "__index__", [])
            if found is not None and isinstance(found.realize(m), Object):
                raise Unsupported("an __index__ that gives an integer of another class")
            if found is not None:
                return self.index(self.answer(found, int, "__index__"))
        try:
            plain = real.as_python(m)
        except NotConstant:
            raise Unsupported(f"{real!r} as an integer") from None
        return int(m.builder.fold(operator.index, [plain]))

    def answer(self, found: Variable, kind: type, method: str) -> Variable:
        """What one of the program's special methods gave, where Python insists on a `kind`. Raises ``Unsupported`` of anything else."""
        real = found.realize(self._m)
        given = real.python_type()
        fits = issubclass(given, kind)
        if kind in (int, float, complex):  # of others Python warns
            fits = given is kind
        if fits and method == "__len__":
            fits = real.value <= sys.maxsize if isinstance(real, Constant) else True
            fits = fits and not self.truth(self.compare("<", real, Constant(0)))
        if not fits:
            raise Unsupported(f"{method} that gives {real!r}")
        return real

    def text(self, value: Variable, how: str = "str") -> Variable:
        """``str(value)`` or ``repr(value)``."""
        m = self._m
        real = value.realize(m)
        if isinstance(real, Object):
            name = "__repr__" if how == "repr" else "__str__"
            found = real.special(m, name) or real.special(m, "__repr__")
            if found is None:
                raise Unsupported(f"text of {real!r}")
            return self.answer(m.calls.call(found, [], {}), str, name)
        if isinstance(real, EnumMember):
            own = real.special(m, f"__{how}__")
            if own is not None:
                return m.calls.call(own, [], {})
        if isinstance(real, Class) and type(real.value) is not type:
            told = real.special(m, f"__{how}__") or real.special(m, "__repr__")
            if told is not None:
                return self.answer(m.calls.call(told, [], {}), str, f"__{how}__")
        if isinstance(real, Class) and real.made_here:
            kinds = {class_lookup(m, type(real.value), name)[1] for name in ("__repr__", "__str__")}
            if kinds <= {type, object}:  # its name
                return Constant(repr(real.value))
        if isinstance(real, Symbolic):
            real = Constant(real.specialise(m))
        if isinstance(real, Alias) and not all(map(_is_told_plainly, getattr(real.value, "__args__", ()))):
            raise Unsupported(f"text of {real!r}")
        if isinstance(real, NamedTuple) and class_lookup(m, real.cls, f"__{how}__")[1] is not object:
            return real.method(m, f"__{how}__", [], {})
        try:
            plain = real
            if isinstance(real, EnumMember):
                plain = real.bare(m)
            elif not isinstance(real, Set):
                plain = real.as_python(m)
        except NotConstant:
            plain = real
        if plain is real:
            return self._display(real)
        if (
            isinstance(real, Known)
            and not isinstance(plain, type)
            and class_lookup(m, type(plain), "__repr__")[1] is object
        ):
            raise Unsupported(f"text of {real!r}")
        return Constant(m.builder.fold({"repr": repr, "str": str}[how], [plain]))

    def percent(self, text: str, given: Variable) -> str:
        """``text % given``."""
        return formatting.percent(self._m, text, given)

    def by_fields(self, text: str, args: Args, kwargs: Kwargs) -> str:
        """``text.format(*args, **kwargs)``."""
        return formatting.by_fields(self._m, text, args, kwargs)

    def _display(self, value: Variable) -> Variable:
        """The text of a container that is not known entirely."""
        m = self._m
        if isinstance(value, NamedTuple):
            return value.method(m, "__repr__", [], {})
        if isinstance(value, (List, Tuple)) and value.cls in (list, tuple):
            parts = [self._shown(x) for x in value.items]
            text = ", ".join(parts)
            if value.cls is list:
                return Constant(f"[{text}]")
            return Constant(f"({text},)" if len(parts) == 1 else f"({text})")
        if isinstance(value, Dict) and value.cls is dict:
            pairs = [f"{self._shown(k)}: {self._shown(v)}" for k, v in value.in_order(m).values()]
            return Constant("{" + ", ".join(pairs) + "}")
        if isinstance(value, Set) and value.cls in (set, frozenset):
            text = ", ".join([self._shown(x) for x in value.ordered(m)])
            if value.cls is set:
                return Constant("{" + text + "}" if text else "set()")
            return Constant("frozenset({" + text + "})" if text else "frozenset()")
        raise Unsupported(f"text of {value!r}")

    def _shown(self, value: Variable) -> str:
        text: str = self._m.builder.to_python(self.text(value, "repr"))
        return text

    def format(self, value: Variable, spec: str) -> Variable:
        """``format(value, spec)``."""
        m = self._m
        real = value.realize(m)
        if isinstance(real, Tensor):
            if spec or m.modes.asks([real]):
                raise Unsupported(WrittenTensor.WHY)
            text: Variable = m.effects.created(WrittenTensor())
            return text
        if isinstance(real, Symbolic):
            # What only the run can tell is asked for here, where the graph may end.
            if not is_unbacked(real.value):
                return WrittenNumber(real, spec)
            real = Constant(real.specialise(m))
        if isinstance(real, Object) and class_lookup(m, real.cls, "__format__")[0] is None:
            raise Unsupported(f"formatting of a {real.cls.__name__}, which refuses it")
        if isinstance(real, Object) and isinstance(class_lookup(m, real.cls, "__format__")[0], types.FunctionType):
            found = real.special(m, "__format__")
            assert found is not None
            return self.answer(m.calls.call(found, [Constant(spec)], {}), str, "__format__")
        if isinstance(real, EnumMember):
            own = real.special(m, "__format__")
            if own is not None:
                return self.answer(m.calls.call(own, [Constant(spec)], {}), str, "__format__")
            if spec and real.special(m, "__str__") is not None:
                raise Unsupported("formatting of a member of an enumeration with a text of its own")
        if isinstance(real, Constant):
            return Constant(m.builder.fold(builtins.format, [real.value, spec]))
        text = self.text(real)
        if spec:
            try:
                return Constant(m.builder.fold(builtins.format, [m.builder.to_python(real), spec]))
            except NotConstant:
                raise Unsupported("formatting of an object with a format specification") from None
        return text
