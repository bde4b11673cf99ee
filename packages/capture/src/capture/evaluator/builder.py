"""Between real Python values and variables: wrapping inputs with their guards, and taking constants out again."""

from __future__ import annotations

import re
import sys
import types
import weakref
from collections.abc import Iterable
from typing import Any

from capture._native import address
from capture.errors import NotConstant, Unsupported
from capture.guards import GuardKind
from capture.labels import is_long, label_of
from capture.sources import Applied, Attr, Const, Item, Referent, Source
from capture.variables.base import Interpreter, Variable
from capture.variables.building import BuildFunction, builder_of, converter_of
from capture.variables.constants import CONSTANT_TYPES, KEPT_INTEGERS, Constant, Known
from capture.variables.enums import EnumMember
from capture.variables.exceptions import ExceptionObject
from capture.variables.families import meet
from capture.variables.functions import Cell, Method
from capture.variables.lookups import can_change, compares_in_its_own_way
from capture.variables.mappings import Dict
from capture.variables.numbers import Symbolic
from capture.variables.objects import Object, build_object
from capture.variables.placeholders import Lazy
from capture.variables.program_state import Effects
from capture.variables.semantics import Errors
from capture.variables.sequences import Tuple
from symshapes import UnbackedError

from .guards import GuardTable


def class_of(value: Any, index: int) -> type:
    """The class of an input; the index is of no use."""
    return type(value)


#: Inputs that were looked at, by identity: the real object and its variable.
Inputs = dict[int, tuple[Any, Variable]]


#: Texts of integers with more digits are limited by a setting of the interpreter's, and made by a module that programs may patch.
_DIGITS = sys.int_info.str_digits_check_threshold
_MANY_DIGITS = re.compile(f"[0-9]{{{_DIGITS + 1}}}")
_LIMITED = "an integer of many digits as a text"
#: What conversions give.
_TOLD = (str, int)
#: References to what was just made: of a local, and of what asks for their number. A tuple brings that: from 3.14 a call may borrow
#: from the local.
_OURS_ALONE = 2


def _is_long(value: Any) -> bool:
    """Whether it is an integer, or a text, of many digits."""
    if type(value) is int:
        return is_long(value)
    return type(value) in (str, bytes, bytearray) and len(value) > _DIGITS


def _is_limited(found: Any, args: list[Any]) -> bool:
    """Whether a result is the text of a long integer, or the integer of a long text."""
    if type(found) is int:
        return _is_long(found) and bool(args) and type(args[0]) is not int and _is_long(args[0])
    return len(found) > _DIGITS and _MANY_DIGITS.search(found) is not None


class VariableBuilder:
    """Builds the variables of one attempt, one for each real object in ``inputs``. ``m`` is handed to those that build."""

    def __init__(
        self, m: Interpreter, guards: GuardTable, effects: Effects[Variable], errors: Errors[Variable], inputs: Inputs
    ) -> None:
        self._m = m
        self._guards = guards
        self._effects = effects
        self._errors = errors
        self._inputs = inputs
        #: What stands for variables in the prototypes of classes, by identity.
        self._standing: Inputs = {}
        #: Where parts of other objects are read from, by identity.
        self._places: dict[int, Source] = {}
        #: What was computed for real and nothing but the capture holds: it has to live as long.
        self.own: list[Any] = []
        #: Texts and numbers that were made in the frame, by identity: nothing else has that very one.
        self._made: dict[int, Any] = {}
        #: The variables of members of enumerations that are read from where nothing else can be: which can hold nothing.
        self._members: Inputs = {}
        #: How values of a class are built, by the class's identity.
        self._builders: dict[int, tuple[type, BuildFunction]] = {}

    def release(self) -> None:
        """Let go of what stands for variables."""
        self._members.clear()
        self._builders.clear()
        self._standing.clear()
        self._places.clear()
        self._made.clear()

    # Inputs

    def wrap(self, value: Any, source: Source | None) -> Variable:
        """The variable of a real value read from ``source``; guards what it is. None: its identity is fixed."""
        cls = type(value)
        if self._effects.reads is not None:
            self._effects.reads.append(value)
        if type(cls) is not type and compares_in_its_own_way(type(cls)):
            raise Unsupported(f"an object of class {cls.__name__}, whose metaclass says what it is equal to")
        if cls in CONSTANT_TYPES:
            if source is None or isinstance(source, Const):
                return Constant(value)
            symbolic = self._m.recorder.number_input(value, source) if cls in (int, float) else None
            if symbolic is not None:
                return symbolic
            self._guards.add(source, GuardKind.EQUALS, value)
            return Constant(value, source)
        if self._places and (source is None or isinstance(source, Const)):
            source = self._places.get(address(value), source)
        found = self._inputs.get(address(value))
        if found is not None:
            return self._again(found, source)
        found = self._standing.get(address(value))
        if found is not None:
            if source is not None and not isinstance(source, Const) and found[1].source not in (None, source):
                self._guards.add(source, GuardKind.SAME_OBJECT, found[1].source)
            return found[1]
        if self._effects.listeners and address(value) in self._effects.listeners:
            raise Unsupported(f"a {cls.__name__} that is yet to be told of what the program does")
        fixed = source is None or isinstance(source, Const)
        if fixed and address(value) in self._members:
            return self._members[address(value)][1]
        variable = self._build(value, source)
        if not isinstance(variable, (Known, Constant)):
            if variable.source is None:
                variable.source = source
            self._inputs[address(value)] = (value, variable)
        elif fixed and type(variable) is EnumMember and not variable.made_here:
            self._members[address(value)] = (value, variable)
        return variable

    @property
    def stand_ins(self) -> int:
        """How many objects are known by something else than themselves, or where they are read."""
        return len(self._standing) + len(self._places)

    def stands_for(self, value: Any, variable: Variable) -> None:
        """A real object, which nobody else has, is what a variable is looked up by."""
        self._standing[address(value)] = (value, variable)
        self._guards.exempt(value)

    def read_from(self, value: Any, source: Source) -> None:
        """Where an object is read from, which is known as part of another: its identity is not fixed."""
        self._places[address(value)] = source

    def place_of(self, value: Any) -> Source | None:
        """That; None if its identity is fixed."""
        return self._places.get(address(value)) if self._places else None

    def is_alike(self, source: Source, cls: type) -> bool:
        """Guard an input's class by what it is made of, if it is one of many."""
        if not self._m.classes.made_anew(cls):
            return False
        self.wrap(cls, Applied(source, class_of, 0))
        return True

    def met(self, value: Any) -> Variable | None:
        """The variable of a real object that was looked at already."""
        found = self._inputs.get(address(value)) or self._standing.get(address(value))
        return None if found is None else found[1]

    def some_met(self, values: Iterable[Any]) -> bool:
        """Whether any of these was."""
        inputs, standing = self._inputs, self._standing
        for value in values:
            place = address(value)
            if place in inputs or place in standing:
                return True
        return False

    def outside(self, variable: Variable) -> Any:
        """The real object behind an input that was looked at; None for any other."""
        if variable.source is None:
            return None
        return next((real for real, each in self._inputs.values() if each is variable), None)

    def _again(self, found: tuple[Any, Variable], source: Source | None) -> Variable:
        """The same object reached from another place."""
        value, variable = found
        first = variable.source
        if self._is_known(source):
            if not self._is_known(first):
                self._guards.add(first, GuardKind.ID, value)
        elif self._is_known(first):
            self._guards.add(source, GuardKind.ID, value)
        elif first != source:
            self._guards.add(source, GuardKind.SAME_OBJECT, first)
        return variable

    def _is_known(self, source: Source | None) -> bool:
        """Whether what a source reads is this object in every call: a constant, or of what was made for this capture alone."""
        return source is None or isinstance(source, Const) or self._guards.is_exempt(source)

    def _build(self, value: Any, source: Source | None) -> Variable:
        meet(value)
        cls = type(value)
        known = self._builders.get(address(cls))
        if known is None:  # a class goes through its bases for it
            known = self._builders[address(cls)] = cls, builder_of(cls) or build_object
        return known[1](self._m, value, source)

    def identified(self, variable: Known, source: Source | None) -> Known:
        """A variable of a known object, which ``source`` must go on to read."""
        if source is not None and not isinstance(source, Const):
            self._guards.is_object(source, variable.value)
            variable.source = source
        return variable

    def cell_at(self, real: types.CellType, content: Source, source: Source) -> Cell:
        """The variable of a real cell, which ``source`` reads, and ``content`` what it holds."""
        found = self._inputs.get(address(real))
        if found is not None and isinstance(found[1], Cell):
            if not self._is_same_cell(found[1], source):
                self._again(found, source)
            return found[1]
        cell = Cell()
        cell.source = source
        self.fill_cell(cell, real, content)
        self._inputs[address(real)] = (real, cell)
        return cell

    def _is_same_cell(self, cell: Cell, source: Source) -> bool:
        """Whether another place holds a known cell whatever a call brings."""
        return cell.source == source or (self._guards.is_fixed(cell.source) and self._guards.is_fixed(source))

    def fill_cell(self, cell: Cell, real: types.CellType, content: Source) -> None:
        """Give a cell what the real one holds."""
        try:
            cell.content = Lazy(real.cell_contents, content)
        except ValueError:
            assert cell.source is not None
            self._guards.add(cell.source, GuardKind.EMPTY_CELL)

    # Parts of inputs

    def input_attribute(self, owner: Object, name: str, value: Any) -> Variable:
        """An entry of an input's dictionary or slots."""
        assert owner.source is not None
        if type(name) is not str:
            raise Unsupported("an object's dictionary with keys that are no strings")
        if name in owner.instance_dict():
            return self.input_entry(owner, name, value)
        entry = Lazy(value, Attr(owner.source, name))
        self._guards.reach_content(entry)
        return entry

    def input_entry(self, owner: Object, name: str, value: Any) -> Variable:
        """An entry of an input's dictionary."""
        if type(name) is not str:
            raise Unsupported("an object's dictionary with keys that are no strings")
        source = owner.source
        assert source is not None
        entry = Lazy(value, Attr(source, name, True))
        self._guards.reach_entry(entry, owner.dict_source(source), name)
        return entry

    def are_empty(self, tables: Iterable[tuple[Any, Source]]) -> bool:
        """Guard of dictionaries, up to the first that is not, that they are empty, without looking at them further."""
        inputs, add = self._inputs, self._guards.add
        for value, source in tables:
            if value is None or len(value) or address(value) in inputs:
                return False
            add(source, GuardKind.LEN, 0)
        return True

    def class_attribute(self, value: Any) -> Variable:
        """A function or other object stored in a class."""
        if not isinstance(value, types.FunctionType):
            return self.known(value)
        noted = self._places or self._effects.reads is not None
        found = None if noted else self._inputs.get(address(value))
        return found[1] if found is not None and found[1].source is None else self.wrap(value, None)

    def class_value(self, owner: type, name: str, raw: Any) -> Variable:
        """A plain value stored in a class, of which the look-up has noted which one it is."""
        found = self._class_value(owner, name, raw)
        if self._effects.later.concerned and can_change(owner):
            self._effects.later.of_class(self._m, owner, name, found)
        return found

    def _class_value(self, owner: type, name: str, raw: Any) -> Variable:
        found: Variable | None = self._m.classes.made_entry(owner, name)
        if found is not None:
            return found
        if type(raw) in CONSTANT_TYPES:
            return self._class_number(owner, name, raw) or Constant(raw)
        made = self._m.classes.made.get(address(owner))
        base = Const(owner, owner.__qualname__) if made is None or made.source is None else made.source
        return self.wrap(raw, Item(Attr(base, "__dict__"), name))

    def _class_number(self, owner: type, name: str, raw: Any) -> Variable | None:
        """A number stored in a class, as a counter is, that is not the same each time; None for any other value."""
        place = self._m.classes.number_place(owner, name) if type(raw) in (int, float) else None
        found = None if place is None else self._m.recorder.number_input(raw, place)
        if found is not None:
            self._m.classes.note_number(owner, name)
        return found

    # Values made in the frame

    def known(self, value: Any) -> Variable:
        """A real object of fixed identity: no guard on which one it is."""
        if type(value) in CONSTANT_TYPES:
            return Constant(value)
        return self.wrap(value, Const(value, label_of(value)))

    def computed(self, value: Any) -> Variable:
        """An object that was just made for real, which nothing else can change."""
        self._guards.exempt(value)
        return self.known(value)

    def referent(self, value: weakref.ref[Any], source: Source | None) -> Variable:
        """What a weak reference refers to: read through it, for nothing may keep that alive."""
        found = value()
        if found is not None and (
            self._m.state.may_be_gone(found) or any(gone is found for _, gone in self._effects.let_go())
        ):
            raise Unsupported("a weak reference to an object that the frame may have let go of")
        return self.wrap(found, Referent(source or Const(value)))

    def from_python(self, value: Any) -> Variable:
        """A value that was computed for real: fresh containers, literals, or an object of fixed identity."""
        cls = type(value)
        if cls in CONSTANT_TYPES:
            # What was made has an identity of its own, which only where it was made can be had.
            constant = Constant(value)
            return self._effects.created(constant) if cls is str or self.is_made(value) else constant
        convert = converter_of(cls)
        if convert is not None:
            return convert(self._m, value)
        if isinstance(value, BaseException):
            return self._effects.created(ExceptionObject(cls, [self.from_python(a) for a in value.args]))
        if hasattr(cls, "__next__"):  # each run would go on where the one before ended
            raise Unsupported(f"a {cls.__name__}, which is made for real")
        return self.known(value)

    def new_tuple(self, items: list[Variable]) -> Tuple:
        """A tuple made in the frame."""
        return self._effects.created(Tuple(items))

    def new_dict(self, values: dict[str, Variable]) -> Dict:
        """A dictionary made in the frame, with these strings for keys."""
        return self._effects.created(Dict({k: (Constant(k), v) for k, v in values.items()}))

    def new_method(self, function: Variable, owner: Variable) -> Method:
        """A function bound to an object."""
        return self._effects.created(Method(function, owner))

    def fold(self, function: Any, args: list[Any], kwargs: dict[str, Any] | None = None) -> Any:
        """Compute for real; an exception becomes the program's."""
        try:
            found = function(*args, **(kwargs or {}))
            if type(found) in _TOLD:
                if _is_limited(found, args):
                    raise Unsupported(_LIMITED)
                if (type(found) is str or found not in KEPT_INTEGERS) and sys.getrefcount(*(found,)) == _OURS_ALONE:
                    self.made(found)
            elif type(found) is float:
                if sys.getrefcount(*(found,)) == _OURS_ALONE:
                    self.made(found)
            elif type(found) in (list, tuple) and sys.getrefcount(*(found,)) == _OURS_ALONE:
                for each in range(len(found)):
                    if type(found[each]) is str and sys.getrefcount(found[each]) == _OURS_ALONE:
                        self.made(found[each])
            elif type(found).__weakrefoffset__ and sys.getrefcount(*(found,)) == _OURS_ALONE:
                self.own.append(found)
            return found
        except RecursionError:
            # It is the evaluation that is deep here, not the program.
            raise Unsupported("calls nested too deep to inline") from None
        except (UnbackedError, Unsupported):
            raise
        except Exception as error:
            if any(map(_is_long, args)):
                raise Unsupported(_LIMITED) from error
            try:
                values: list[Variable] = [self.from_python(a) for a in error.args]
            except (Unsupported, NotConstant):
                raise Unsupported(f"{type(error).__name__}: {error}") from error
            self._errors.throw_value(type(error), values)

    def made(self, value: Any) -> Any:
        """The same text or number, which was made just now: a run makes another, which is equal and not the same."""
        self._made[address(value)] = value
        return value

    def is_made(self, value: object) -> bool:
        """Whether a value is a text or number that was made so."""
        return bool(self._made) and address(value) in self._made

    # Taking values out

    def to_python(self, variable: Variable) -> Any:
        """The real value; raises ``NotConstant``."""
        return variable.realize(self._m).as_python(self._m)

    def is_constant(self, variable: Variable) -> bool:
        """Whether the real value is known entirely, and no symbol's that would have to be fixed to tell it."""
        if self._has_symbol(variable):
            return False
        try:
            self.to_python(variable)
        except NotConstant:
            return False
        return True

    def _has_symbol(self, variable: Variable) -> bool:
        real = variable.realize(self._m)
        if isinstance(real, Symbolic):
            return real.known is None
        return any(map(self._has_symbol, real.contents(self._m)))

    def is_none(self, variable: Variable) -> bool:
        """Whether it is known to be None."""
        real = variable.realize(self._m)
        return isinstance(real, Constant) and real.value is None
