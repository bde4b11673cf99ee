"""Between real Python values and variables: wrapping inputs with their guards, and taking constants out again."""

from __future__ import annotations

import collections
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from capture.errors import NotConstant, SkipFrame, Unsupported
from capture.guards import GuardKind, Predicate, TensorMeta
from capture.sources import (
    Attr,
    Const,
    Global,
    Item,
    ModuleGlobal,
    Namespace,
    Referent,
    Source,
)
from capture.trace_rules import is_foreign, is_recorded_python, module_of
from capture.variables.assumptions import Sourced
from capture.variables.base import Lazy, Variable
from capture.variables.building import builder_of
from capture.variables.constants import CONSTANT_TYPES, Constant, Known
from capture.variables.exceptions import ExceptionObject
from capture.variables.functions import Cell, Method
from capture.variables.handlers import handler_of
from capture.variables.mappings import Dict
from capture.variables.objects import Object, build_object
from capture.variables.sequences import List, Tuple
from capture.variables.sets import Set
from capture.variables.slices import Range, Slice

from .facts import can_change
from .identity import Identity


class Values(Identity):
    """Building variables."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.fakes: dict[int, Any] = {}

    # Inputs

    def wrap(self, value: Any, source: Source | None) -> Variable:
        """The variable of a real value read from ``source``; guards what it is. None: its identity is fixed."""
        cls = type(value)
        if cls in CONSTANT_TYPES:
            if source is None or isinstance(source, Const):
                return Constant(value)
            self.add(source, GuardKind.EQUALS, value)
            return Constant(value, source)
        found = self.memo.get(id(value))
        if found is not None:
            return self.again(found, source)
        variable = self.build(value, source)
        if not isinstance(variable, Known | Constant):
            if variable.source is None:
                variable.source = source
            self.memo[id(value)] = (value, variable)
        return variable

    def again(self, found: tuple[Any, Variable], source: Source | None) -> Variable:
        """The same object reached from another place."""
        value, variable = found
        first = variable.source
        if source is not None and not isinstance(source, Const):
            if first is None or isinstance(first, Const):
                self.add(source, GuardKind.ID, value)
            elif first != source:
                self.add(source, GuardKind.SAME_OBJECT, first)
        elif first is not None and not isinstance(first, Const):
            self.add(first, GuardKind.ID, value)
        return variable

    def build(self, value: Any, source: Source | None) -> Variable:
        return (builder_of(type(value)) or build_object)(self.me, value, source)

    def identified(self, variable: Known, source: Source | None) -> Known:
        if source is not None and not isinstance(source, Const):
            self.add(source, GuardKind.ID, variable.value)
            variable.source = source
        return variable

    def of_type(self, source: Source | None, cls: type) -> None:
        if source is None:
            raise Unsupported(f"{cls.__name__} of unknown origin")
        if not isinstance(source, Const) or can_change(cls):
            self.add(source, GuardKind.TYPE, cls)

    def input(self, value: torch.Tensor, source: Source) -> tuple[fx.Node, Any]:
        """A tensor from outside becomes an input of the graph: its node and its fake. Guards its metadata."""
        policy = self.dynamic_sizes.policy(value, source)
        try:
            fake = self.fake_mode.from_tensor(value, source=source.name, policy=policy)
        except NotImplementedError as error:
            # A wrapper of a function transform (vmap, grad): its frames are the interpreter's.
            raise SkipFrame(f"a tensor without a storage of its own ({error})") from error
        if policy is not None:
            self.dynamic_sizes.note(fake, source)
        if not isinstance(source, Const):
            sizes = tuple(s if type(s) is int else None for s in fake.shape)
            strides = tuple(s if type(s) is int else None for s in fake.stride())
            self.add(source, GuardKind.TENSOR, TensorMeta.of(value, sizes=sizes, strides=strides))
        return self.graph.placeholder(source, fake, self.where()), fake

    def understood(self, value: types.FunctionType) -> bool:
        """Whether a function is known as a whole: which one it is counts, not what it runs."""
        module = module_of(value)
        return handler_of(value, module) is not None or is_recorded_python(module) or is_foreign(module)

    def cell_at(self, real: types.CellType, content: Source, source: Source) -> Cell:
        """The variable of a real cell, which ``source`` reads, and ``content`` what it holds."""
        found = self.memo.get(id(real))
        if found is not None and isinstance(found[1], Cell):
            if not self.is_same_cell(found[1], source):
                self.again(found, source)
            return found[1]
        cell = Cell()
        cell.source = source
        self.fill_cell(cell, real, content)
        self.memo[id(real)] = (real, cell)
        return cell

    def fill_cell(self, cell: Cell, real: types.CellType, content: Source) -> None:
        try:
            cell.content = Lazy(real.cell_contents, content)
        except ValueError:
            assert cell.source is not None
            self.add(cell.source, GuardKind.EMPTY_CELL)

    # Parts of inputs

    def input_attribute(self, owner: Object, name: str, value: Any) -> Variable:
        """An entry of an input's dictionary or slots."""
        assert owner.source is not None
        in_dict = name in owner.instance_dict()
        entry = Lazy(value, Attr(owner.source, name, via_dict=in_dict))
        if in_dict:
            self.reach(entry, Attr(owner.source, "__dict__"), name)
        else:
            self.reach_content(entry)
        return entry

    def no_attribute(self, owner: Sourced, name: str) -> None:
        source = owner.source
        if isinstance(owner, Object):
            self.not_shadowed(owner, name)
        elif source is not None and not isinstance(source, Const):
            self.add(source, GuardKind.NO_ATTR, name)

    def predicate(self, owner: Sourced, check: Callable[[Any], object], text: str, subject: object = None) -> None:
        """A Python check on an input; none on objects of fixed identity that only guards can see change."""
        if owner.source is None:
            raise Unsupported("a condition on an object made in the frame")
        self.add(owner.source, GuardKind.CALLABLE, Predicate(check, text, subject))

    def not_shadowed(self, owner: Object, name: str) -> None:
        """The instance's own dictionary does not hold ``name``."""
        if owner.source is None or name in owner.attrs:
            return
        if isinstance(getattr(owner.value, "__dict__", None), dict):
            self.add(Attr(owner.source, "__dict__"), GuardKind.NO_KEY, name)

    def dict_keys(self, owner: Object) -> None:
        assert owner.source is not None
        self.add(Attr(owner.source, "__dict__"), GuardKind.DICT_KEYS, tuple(owner.instance_dict()))

    def is_empty(self, value: Any, owner: Source | None, name: str) -> bool:
        """Guard that a dictionary in an attribute is empty, if it is, without looking at it further."""
        if value is None or owner is None or len(value) or id(value) in self.memo:
            return False
        self.add(Attr(owner, name, via_dict=True), GuardKind.LEN, 0)
        return True

    def class_attribute(self, value: Any) -> Variable:
        """A function or other object stored in a class."""
        return self.wrap(value, None) if isinstance(value, types.FunctionType) else self.known(value)

    def class_value(self, owner: type, name: str, raw: Any) -> Variable:
        """A plain value stored in a class, of which the look-up has noted which one it is."""
        if type(raw) in CONSTANT_TYPES:
            return Constant(raw)
        return self.wrap(raw, Item(Attr(Const(owner, owner.__qualname__), "__dict__"), name))

    # Globals

    def read(self, namespace: dict[str, Any], name: str) -> Variable:
        """A global that exists, as the program has it now."""
        self.check_namespace(namespace)
        key = (id(namespace), name)
        written = self.written.get(key)
        if written is not None:
            if written[1] is None:
                self.throw(NameError, f"name {name!r} is not defined")
            return written[1]
        found = self.globals_read.get(key)
        if found is None:
            found = self.globals_read[key] = self.read_global(namespace, name)
        return found

    def read_global(self, namespace: dict[str, Any], name: str) -> Variable:
        value = namespace[name]
        if namespace is self.root_globals:
            self.note_globals()
            entry = Lazy(value, Global(name))
            self.reach(entry, Const(namespace, str(namespace.get("__name__", "?"))), name)
            return entry
        # At once: were it gone, reading it again would not fail as the program's own way of reading does.
        return self.wrap(value, ModuleGlobal(str(namespace.get("__name__", "?")), name, namespace))

    def check_namespace(self, namespace: dict[str, Any]) -> None:
        """That it was not changed as the dictionary that it is, too: what was written there is not looked for here."""
        found = self.memo.get(id(namespace))
        if found is not None and id(found[1]) in self.changed:
            raise Unsupported("a global, of a module whose dictionary was changed")

    def note_globals(self) -> None:
        """Another function of the same code may have other globals."""
        self.add(Namespace("globals"), GuardKind.ID, self.root_globals)

    def has(self, namespace: dict[str, Any], name: str) -> bool:
        """Whether a global exists, as the program has it now."""
        self.check_namespace(namespace)
        written = self.written.get((id(namespace), name))
        if written is not None:
            return written[1] is not None
        if namespace is self.root_globals:
            self.note_globals()
        kind = GuardKind.HAS_KEY if name in namespace else GuardKind.NO_KEY
        self.add(Const(namespace, str(namespace.get("__name__", "?"))), kind, name)
        return name in namespace

    def builtin(self, namespace: dict[str, Any], builtins: dict[str, Any], name: str) -> Variable:
        """A built-in; guards that no global hides it."""
        self.check_namespace(namespace)
        key = (id(namespace), name)
        found = self.globals_read.get(key)
        if found is None:
            if namespace is self.root_globals:
                self.note_globals()
                self.add(Namespace("builtins"), GuardKind.ID, builtins)
            self.add(Const(namespace, str(namespace.get("__name__", "?"))), GuardKind.NO_KEY, name)
            if name not in builtins:
                self.add(Const(builtins, "builtins"), GuardKind.NO_KEY, name)
                self.throw(NameError, f"name '{name}' is not defined")
            found = self.globals_read[key] = self.builtin_entry(builtins, name)
        return found

    def builtin_entry(self, builtins: dict[str, Any], name: str) -> Variable:
        return self.wrap(builtins[name], ModuleGlobal("builtins", name, builtins))

    def imported(self, name: str) -> Variable:
        """A module that is imported already."""
        return self.wrap(sys.modules[name], ModuleGlobal("sys.modules", name, sys.modules))

    def write(self, namespace: dict[str, Any], name: str, value: Variable | None) -> None:
        if id(namespace) in self.memo:
            raise Unsupported("writing a global of a module whose dictionary was read")
        self.activity += 1
        self.changes += 1
        self.written[(id(namespace), name)] = (namespace, value)

    # Values made in the frame

    def known(self, value: Any) -> Variable:
        """A real object of fixed identity: no guard on which one it is."""
        if type(value) in CONSTANT_TYPES:
            return Constant(value)
        return self.wrap(value, Const(value, str(getattr(value, "__qualname__", ""))))

    def computed(self, value: Any) -> Variable:
        """An object that was just made for real, which nothing else can change."""
        self.private[id(value)] = value
        return self.known(value)

    def referent(self, value: weakref.ref[Any], source: Source | None) -> Variable:
        """What a weak reference refers to: read through it, for nothing may keep that alive."""
        return self.wrap(value(), Referent(source or Const(value)))

    def from_python(self, value: Any) -> Variable:
        """A value that was computed for real: fresh containers, literals, or an object of fixed identity."""
        cls = type(value)
        if cls in CONSTANT_TYPES:
            return Constant(value)
        if cls is tuple or cls is torch.Size:
            return self.created(Tuple([self.from_python(v) for v in value], cls))
        if cls is list:
            return self.created(List([self.from_python(v) for v in value]))
        if cls in (dict, collections.OrderedDict):
            pairs = [(self.from_python(k), self.from_python(v)) for k, v in value.items()]
            return self.created(Dict({k.hash_key(self.me): (k, v) for k, v in pairs}, cls))
        if cls in (set, frozenset):
            made = Set.of(self.me, [self.from_python(v) for v in value], cls)
            made.only_grew = False  # who knows
            return made
        if cls is slice:
            return Slice(*(self.from_python(v) for v in (value.start, value.stop, value.step)))
        if cls is range:
            return Range(value)
        if isinstance(value, BaseException):
            return self.created(ExceptionObject(cls, [self.from_python(a) for a in value.args]))
        return self.known(value)

    def new_tuple(self, items: list[Variable]) -> Tuple:
        return self.created(Tuple(items))

    def new_dict(self, values: dict[str, Variable]) -> Dict:
        return self.created(Dict({k: (Constant(k), v) for k, v in values.items()}))

    def new_method(self, function: Variable, owner: Variable) -> Method:
        return self.created(Method(function, owner))

    # Taking values out

    def to_python(self, variable: Variable) -> Any:
        """The real value; raises ``NotConstant``."""
        return variable.realize(self.me).as_python(self.me)

    def is_constant(self, variable: Variable) -> bool:
        try:
            self.to_python(variable)
        except NotConstant:
            return False
        return True

    def is_none(self, variable: Variable) -> bool:
        real = variable.realize(self.me)
        return isinstance(real, Constant) and real.value is None
