"""Between real Python values and variables: wrapping inputs with their guards, and taking constants out again."""

from __future__ import annotations

import collections
import enum
import functools
import sys
import types
import weakref
from collections.abc import Callable, Hashable
from typing import Any

import torch

from capture import _native
from capture.compiled_module import CompiledModule
from capture.errors import NotConstant, SkipFrame, Unsupported
from capture.guards import GuardKind, Predicate, TensorMeta
from capture.sources import (
    Attr,
    CellContent,
    Closure,
    Const,
    Default,
    DictKeyAt,
    Global,
    Item,
    KwDefault,
    Local,
    ModuleGlobal,
    Namespace,
    Referent,
    Source,
)
from capture.trace_rules import is_foreign, is_recorded_python, module_of
from capture.variables.base import Lazy, Variable
from capture.variables.classes import Class, PyModule
from capture.variables.constants import CONSTANT_TYPES, Constant, Known, WeakReference
from capture.variables.deques import Deque
from capture.variables.enums import EnumMember
from capture.variables.exceptions import ExceptionObject
from capture.variables.functions import Cell, Function, Method, Partial
from capture.variables.known_functions import handler_for
from capture.variables.mappings import Dict, Numbered, Set, numbered
from capture.variables.modules import Module
from capture.variables.named_tuples import NamedTuple
from capture.variables.objects import Object
from capture.variables.sequences import List, Range, Slice, Tuple
from capture.variables.tensors import Tensor
from capture.variables.torch_calls import BuiltinFunction

from .facts import can_change
from .identity import Identity

_BUILTIN_FUNCTIONS = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    torch._ops.OpOverload,
    torch._ops.OpOverloadPacket,
    type(functools.lru_cache(lambda: None)),
)
_MAPPING_TYPES = (dict, collections.OrderedDict, collections.defaultdict, types.MappingProxyType)


class Values(Identity):
    """Building variables."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.fakes: dict[int, Tensor] = {}

    # Inputs

    def wrap(self, value: Any, source: Source | None) -> Variable:
        """The variable of a real value read from ``source``; guards what it is. None: its identity is fixed."""
        cls = type(value)
        if cls in CONSTANT_TYPES:
            if source is None or isinstance(source, Const):
                return Constant(value)
            self.guard(source, GuardKind.EQUALS, value)
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
                self.guard(source, GuardKind.ID, value)
            elif first != source:
                self.guard(source, GuardKind.SAME_OBJECT, first)
        elif first is not None and not isinstance(first, Const):
            self.guard(first, GuardKind.ID, value)
        return variable

    def build(self, value: Any, source: Source | None) -> Variable:
        cls = type(value)  # not isinstance(): an object may claim another class
        if issubclass(cls, torch.Tensor):
            return self.input_tensor(value, source)
        if issubclass(cls, type):
            return self.identity(Class(value), source)
        if issubclass(cls, CompiledModule):
            return self.wrap(value.original, _attr(source, "original"))
        if cls is _native.CompiledCallable:
            return self.wrap(value.__wrapped__, _attr(source, "__wrapped__"))
        if cls is _native.DisabledCallable:
            raise Unsupported("a function marked with capture.disable")
        if issubclass(cls, torch.nn.Module):
            if source is not None and not isinstance(source, Const):
                self.guard(source, GuardKind.BOUND, cls)
            self.type_guard(Const(value) if source is None else source, cls)
            return Module(cls, value)
        if isinstance(value, types.FunctionType):
            return self.function(value, source)
        if issubclass(cls, types.ModuleType):
            return self.identity(PyModule(value), source)
        if issubclass(cls, enum.Enum):
            self.note_type(value)
            return self.identity(EnumMember(value), source)
        if isinstance(value, _BUILTIN_FUNCTIONS):
            return self.builtin(value, source)
        if cls is types.MethodType:
            return self.bound_method(value, source)
        if cls in (list, tuple, torch.Size, collections.deque) or (
            issubclass(cls, tuple) and hasattr(cls, "_fields") and cls.__new__ is not tuple.__new__
        ):
            return self.sequence(value, source)
        if cls in _MAPPING_TYPES:
            return self.mapping(value, source)
        if cls in (set, frozenset):
            return self.set_of(value, source)
        if cls is slice:
            self.type_guard(source, cls)
            return Slice(*(self.lazy(getattr(value, n), _attr(source, n)) for n in ("start", "stop", "step")))
        if cls is range:
            if source is not None and not isinstance(source, Const):
                self.guard(source, GuardKind.EQUALS, value)
            return Range(value)
        if cls is functools.partial:
            return self.partial(value, source)
        if cls is types.CellType:
            return self.cell(value, source)
        if issubclass(cls, BaseException):
            raise Unsupported("an exception object as input")
        return self.instance(value, source)

    def identity(self, variable: Known, source: Source | None) -> Known:
        if source is not None and not isinstance(source, Const):
            self.guard(source, GuardKind.ID, variable.value)
            variable.source = source
        return variable

    def type_guard(self, source: Source | None, cls: type) -> None:
        if source is None:
            raise Unsupported(f"{cls.__name__} of unknown origin")
        if not isinstance(source, Const) or can_change(cls):
            self.guard(source, GuardKind.TYPE, cls)

    def lazy(self, value: Any, source: Source | None) -> Variable:
        """An input to be looked at when needed."""
        if source is None:
            raise Unsupported("input of unknown origin")
        return Lazy(value, source)

    def fake_of(self, value: torch.Tensor, source: Source) -> Any:
        """The fake of an input."""
        policy = self.dynamic_sizes.policy(value, source)
        fake = self.fake_mode.from_tensor(value, source=source.name, policy=policy)
        if policy is not None:
            self.dynamic_sizes.note(fake, source)
        return fake

    def input_tensor(self, value: torch.Tensor, source: Source | None) -> Variable:
        if type(value) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
            raise Unsupported(f"tensor subclass {type(value).__name__}")
        if value.layout is not torch.strided:
            raise Unsupported(f"tensor of layout {value.layout}")
        if value.is_nested or value.is_quantized:
            raise Unsupported("nested or quantized tensor")
        if source is None:
            raise Unsupported("tensor of unknown origin")
        try:
            value.is_leaf  # noqa: B018
        except RuntimeError as error:  # a view whose base was written in a way that leaves it no place in autograd
            raise Unsupported(f"a tensor that cannot be differentiated: {error}") from error
        try:
            fake = self.fake_of(value, source)
        except NotImplementedError as error:
            # A wrapper of a function transform (vmap, grad): its frames are the interpreter's.
            raise SkipFrame(f"a tensor without a storage of its own ({error})") from error
        if not isinstance(source, Const):
            sizes = tuple(s if type(s) is int else None for s in fake.shape)
            strides = tuple(s if type(s) is int else None for s in fake.stride())
            self.guard(source, GuardKind.TENSOR, TensorMeta.of(value, sizes=sizes, strides=strides))
        node = self.graph.placeholder(source, fake, self.where())
        variable = Tensor(node, fake, type(value))
        variable.value = value
        self.fakes[id(fake)] = variable
        return variable

    def function(self, value: types.FunctionType, source: Source | None) -> Variable:
        if source is None or isinstance(source, Const):
            return self.function_parts(value, Const(value, value.__qualname__))
        of_call = isinstance(source, Local | Closure | CellContent) or self.hangs_from_bound(source)
        if of_call and not self.understood(value):
            # Another one of the same code will do: one that is made anew for each call, or for each of equal modules.
            self.guard(source, GuardKind.TYPE, types.FunctionType)
            self.guard(_attr(source, "__code__"), GuardKind.ID, value.__code__)
            self.guard(_attr(source, "__globals__"), GuardKind.ID, value.__globals__)
        else:
            self.guard(source, GuardKind.ID, value)
        return self.function_parts(value, source)

    def understood(self, value: types.FunctionType) -> bool:
        """Whether a function is known as a whole: which one it is counts, not what it runs."""
        module = module_of(value)
        return handler_for(value, module) is not None or is_recorded_python(module) or is_foreign(module)

    def function_parts(self, value: types.FunctionType, base: Source) -> Function:
        defaults: list[Variable] = [Lazy(d, Default(base, i)) for i, d in enumerate(value.__defaults__ or ())]
        keyword: dict[str, Variable] = {k: Lazy(d, KwDefault(base, k)) for k, d in (value.__kwdefaults__ or {}).items()}
        cells: list[Cell] = []
        for i, real in enumerate(value.__closure__ or ()):
            cells.append(self.cell_at(real, CellContent(base, i), Item(Attr(base, "__closure__"), i)))
        made = Function(value.__code__, value.__globals__, value.__qualname__, defaults, keyword, cells, value)
        made.base = base
        return made

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
            self.guard(cell.source, GuardKind.EMPTY_CELL)

    def cell(self, value: types.CellType, source: Source | None) -> Variable:
        self.type_guard(source, types.CellType)
        assert source is not None
        cell = Cell()
        cell.source = source
        self.fill_cell(cell, value, Attr(source, "cell_contents"))
        return cell

    def builtin(self, value: Any, source: Source | None) -> Variable:
        owner = getattr(value, "__self__", None)
        if isinstance(value, functools._lru_cache_wrapper):
            return self.identity(BuiltinFunction(value), source)
        if isinstance(value, types.MethodWrapperType) or (
            isinstance(value, types.BuiltinFunctionType)
            and owner is not None
            and not isinstance(owner, types.ModuleType | type)
            and hasattr(type(owner), value.__name__)  # not so for functions of C++ bindings
        ):
            if source is None:
                raise Unsupported(f"built-in method {value!r} of unknown origin")
            self.guard(source, GuardKind.TYPE, type(value))
            bound = self.wrap(owner, Attr(source, "__self__"))
            self.guard(Attr(source, "__name__"), GuardKind.EQUALS, value.__name__)
            return bound.attribute(self.me, value.__name__)
        return self.identity(BuiltinFunction(value), source)

    def bound_method(self, value: types.MethodType, source: Source | None) -> Variable:
        if source is None or isinstance(source, Const):
            source = Const(value)
        else:
            self.guard(source, GuardKind.TYPE, types.MethodType)
        function = self.wrap(value.__func__, Attr(source, "__func__"))
        owner = self.wrap(value.__self__, Attr(source, "__self__"))
        return Method(function, owner)

    def sequence(self, value: Any, source: Source | None) -> Variable:
        cls = type(value)
        if cls is tuple and isinstance(source, Attr) and _is_literal(value):
            # Sizes, strides and the like in an attribute: one guard on the whole.
            self.guard(source, GuardKind.EQUALS, value)
            return Tuple([self.from_python(v) for v in value])
        self.type_guard(source, cls)
        assert source is not None
        if not isinstance(source, Const) or cls in (list, collections.deque):
            self.guard(source, GuardKind.LEN, len(value))
        items: list[Variable] = [self.element(v, Item(source, i)) for i, v in enumerate(value)]
        if cls is collections.deque:
            self.guard(Attr(source, "maxlen"), GuardKind.EQUALS, value.maxlen)
            return Deque(items, value.maxlen)
        if cls is list:
            return List(items)
        return Tuple(items, cls) if cls in (tuple, torch.Size) else NamedTuple(items, cls)

    def element(self, value: Any, source: Source) -> Variable:
        return Lazy(value, source)

    def mapping(self, value: dict[Any, Any], source: Source | None) -> Variable:
        cls = type(value)
        if any(namespace is value for namespace, _ in self.globals_written.values()):
            raise Unsupported("the dictionary of a module of which a global was written")
        self.type_guard(source, cls)
        assert source is not None
        if cls in (dict, collections.OrderedDict) and self.hangs_from_bound(source) and numbered(value):
            return Numbered(value, source, lambda: self.guard(source, GuardKind.LEN, len(value)))
        entries: dict[Hashable, tuple[Variable, Variable]] = {}
        literal = True
        for i, (k, v) in enumerate(value.items()):
            if type(k) in CONSTANT_TYPES or isinstance(k, enum.Enum | type):
                key: Variable = self.from_python(k)
                entries[key.hash_key(self.me)] = (key, Lazy(v, Item(source, k)))
            else:
                literal = False
                key = self.wrap(k, DictKeyAt(source, i))
                entries[key.hash_key(self.me)] = (key, Lazy(v, Item(source, k)))
        made = Dict(entries, cls)
        made.original = dict(entries)
        keys = tuple(value)
        if literal:
            made.guard_keys = lambda: self.guard(source, GuardKind.DICT_KEYS, keys)
            made.guard_absent = lambda key: self.guard_absent_key(source, key, keys)
        else:
            self.guard(source, GuardKind.LEN, len(value))
        if cls is collections.defaultdict:
            factory: Any = value.default_factory  # type: ignore[attr-defined]
            made.factory = self.wrap(factory, Attr(source, "default_factory"))
        return made

    def guard_absent_key(self, source: Source, key: Hashable, keys: tuple[Any, ...]) -> None:
        if type(key) in CONSTANT_TYPES:
            self.guard(source, GuardKind.NO_KEY, key)
        else:
            self.guard(source, GuardKind.DICT_KEYS, keys)

    def set_of(self, value: Any, source: Source | None) -> Variable:
        if all(type(x) in CONSTANT_TYPES or isinstance(x, enum.Enum | type) for x in value):
            if source is not None and not (isinstance(source, Const) and type(value) is frozenset):
                self.type_guard(source, type(value))
                expected = frozenset(value)
                text = f"{{}} == {set(value)!r}"[:200]
                self.guard(source, GuardKind.CALLABLE, Predicate(lambda s: s == expected, text))
            wrapped = [self.from_python(x) for x in value]
            return Set({x.hash_key(self.me): x for x in wrapped}, type(value))
        raise Unsupported("a set of values that are not constants, from outside the frame")

    def partial(self, value: Any, source: Source | None) -> Variable:
        self.type_guard(source, functools.partial)
        assert source is not None
        function = self.wrap(value.func, Attr(source, "func"))
        args = Attr(source, "args")
        self.guard(args, GuardKind.LEN, len(value.args))
        keywords = Attr(source, "keywords")
        self.guard(keywords, GuardKind.DICT_KEYS, tuple(value.keywords))
        return Partial(
            function,
            [Lazy(a, Item(args, i)) for i, a in enumerate(value.args)],
            {k: Lazy(v, Item(keywords, k)) for k, v in value.keywords.items()},
            value,
        )

    def instance(self, value: Any, source: Source | None) -> Variable:
        """Any other object: of a class written in Python, or opaque."""
        cls = type(value)
        if issubclass(cls, weakref.ref):
            return self.identity(WeakReference(value), source)
        if cls.__module__ == "typing" or cls in (types.GenericAlias, types.UnionType, property):
            return self.identity(Known(value), source)
        if source is None:
            source = Const(value)
        payload = self.payload(value, source)
        self.type_guard(source, cls)
        made = Object(cls, value, payload)
        made.source = source
        return made

    def payload(self, value: Any, source: Source) -> Variable | None:
        """The built-in part of an instance of a subclass of a built-in type."""
        cls = type(value)
        if issubclass(cls, dict):
            entries: dict[Hashable, tuple[Variable, Variable]] = {}
            for k, v in dict.items(value):
                if type(k) not in CONSTANT_TYPES:
                    raise Unsupported(f"keys of {type(value).__name__}")
                entries[k] = (Constant(k), Lazy(v, Item(source, k, cls.__getitem__ is not dict.__getitem__)))
            base = collections.OrderedDict if issubclass(cls, collections.OrderedDict) else dict
            made = Dict(entries, base)
            made.original = dict(entries)
            keys = tuple(dict.keys(value))
            made.guard_keys = lambda: self.guard(source, GuardKind.DICT_KEYS, keys)
            made.guard_absent = lambda key: self.guard_absent_key(source, key, keys)
            made.source = source
            return made
        if issubclass(cls, list):
            self.guard(source, GuardKind.LEN, list.__len__(value))
            if type(value).__getitem__ is not list.__getitem__:
                raise Unsupported(f"list subclass {type(value).__name__} with its own __getitem__")
            made_list = List([Lazy(v, Item(source, i)) for i, v in enumerate(list.__iter__(value))])
            made_list.source = source
            made_list.is_payload = True
            return made_list
        if issubclass(cls, tuple):
            self.guard(source, GuardKind.LEN, tuple.__len__(value))
            if type(value).__getitem__ is not tuple.__getitem__:
                raise Unsupported(f"tuple subclass {type(value).__name__} with its own __getitem__")
            return Tuple([Lazy(v, Item(source, i)) for i, v in enumerate(tuple.__iter__(value))])
        if issubclass(cls, str | int | float | bytes | set | frozenset | complex):
            raise Unsupported(f"input of type {type(value).__name__}")
        return None

    # Parts of inputs

    def attribute_source(self, owner: Variable, name: str) -> Source:
        if isinstance(owner, Function) and owner.source is None:
            return Attr(Const(owner.real, owner.name), name)
        if owner.source is None:
            raise Unsupported(f"attribute {name!r} of an object of unknown origin")
        return Attr(owner.source, name)

    def known_attribute_source(self, value: Any, name: str) -> Source:
        return Attr(Const(value, getattr(value, "__name__", "")), name)

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

    def guard_no_attribute(self, owner: Variable, name: str) -> None:
        source = owner.source
        if isinstance(owner, Object):
            self.guard_not_shadowed(owner, name)
        elif source is not None and not isinstance(source, Const):
            self.guard(source, GuardKind.NO_ATTR, name)

    def guard_predicate(
        self, owner: Variable, check: Callable[[Any], object], text: str, subject: object = None
    ) -> None:
        """A Python check on an input; none on objects of fixed identity that only guards can see change."""
        if owner.source is None:
            raise Unsupported("a condition on an object made in the frame")
        self.guard(owner.source, GuardKind.CALLABLE, Predicate(check, text, subject))

    def guard_not_shadowed(self, owner: Object, name: str) -> None:
        """The instance's own dictionary does not hold ``name``."""
        if owner.source is None or name in owner.attrs:
            return
        if isinstance(getattr(owner.value, "__dict__", None), dict):
            self.guard(Attr(owner.source, "__dict__"), GuardKind.NO_KEY, name)

    def guard_dict_keys(self, owner: Object) -> None:
        assert owner.source is not None
        self.guard(Attr(owner.source, "__dict__"), GuardKind.DICT_KEYS, tuple(owner.instance_dict()))

    def guard_empty(self, value: Any, owner: Source | None, name: str) -> bool:
        """Guard that a dictionary in an attribute is empty, if it is, without looking at it further."""
        if value is None or owner is None or len(value) or id(value) in self.memo:
            return False
        self.guard(Attr(owner, name, via_dict=True), GuardKind.LEN, 0)
        return True

    def module_source(self, module: types.ModuleType) -> Source:
        return Const(module, module.__name__)

    def class_attribute(self, owner: type, name: str, value: Any) -> Variable:
        """A function or other object stored in a class."""
        return self.wrap(value, None) if isinstance(value, types.FunctionType) else self.known(value)

    def trusted_function(self, value: types.FunctionType) -> Variable:
        """A function that was found in an object of fixed identity."""
        return self.wrap(value, None)

    def wrap_class_value(self, owner: type, name: str, raw: Any) -> Variable:
        """A plain value stored in a class, of which the look-up has noted which one it is."""
        if type(raw) in CONSTANT_TYPES:
            return Constant(raw)
        return self.wrap(raw, Item(Attr(Const(owner, owner.__qualname__), "__dict__"), name))

    # Globals

    def module_global(self, namespace: dict[str, Any], name: str) -> Variable:
        """A global that exists, as the program has it now."""
        self.check_namespace(namespace)
        key = (id(namespace), name)
        written = self.globals_written.get(key)
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
        self.guard(Namespace("globals"), GuardKind.ID, self.root_globals)

    def has_global(self, namespace: dict[str, Any], name: str) -> bool:
        """Whether a global exists, as the program has it now."""
        self.check_namespace(namespace)
        written = self.globals_written.get((id(namespace), name))
        if written is not None:
            return written[1] is not None
        if namespace is self.root_globals:
            self.note_globals()
        kind = GuardKind.HAS_KEY if name in namespace else GuardKind.NO_KEY
        self.guard(Const(namespace, str(namespace.get("__name__", "?"))), kind, name)
        return name in namespace

    def builtin_global(self, namespace: dict[str, Any], builtins: dict[str, Any], name: str) -> Variable:
        """A built-in; guards that no global hides it."""
        self.check_namespace(namespace)
        key = (id(namespace), name)
        found = self.globals_read.get(key)
        if found is None:
            if namespace is self.root_globals:
                self.note_globals()
                self.guard(Namespace("builtins"), GuardKind.ID, builtins)
            self.guard(Const(namespace, str(namespace.get("__name__", "?"))), GuardKind.NO_KEY, name)
            if name not in builtins:
                self.guard(Const(builtins, "builtins"), GuardKind.NO_KEY, name)
                self.throw(NameError, f"name '{name}' is not defined")
            found = self.globals_read[key] = self.builtin_entry(builtins, name)
        return found

    def builtin_entry(self, builtins: dict[str, Any], name: str) -> Variable:
        return self.wrap(builtins[name], ModuleGlobal("builtins", name, builtins))

    def imported(self, name: str) -> Variable:
        """A module that is imported already."""
        return self.wrap(sys.modules[name], ModuleGlobal("sys.modules", name, sys.modules))

    def set_global(self, namespace: dict[str, Any], name: str, value: Variable | None) -> None:
        if id(namespace) in self.memo:
            raise Unsupported("writing a global of a module whose dictionary was read")
        self.activity += 1
        self.changes += 1
        self.globals_written[(id(namespace), name)] = (namespace, value)

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

    def created_tuple(self, items: list[Variable]) -> Tuple:
        return self.created(Tuple(items))

    def created_dict(self, values: dict[str, Variable]) -> Dict:
        return self.created(Dict({k: (Constant(k), v) for k, v in values.items()}))

    def created_method(self, function: Variable, owner: Variable) -> Method:
        return self.created(Method(function, owner))

    # Taking values out

    def realize(self, variable: Variable) -> Variable:
        return variable.realize(self.me)

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


def _is_literal(value: Any) -> bool:
    """Whether a value consists of literals, down through tuples."""
    if type(value) is tuple:
        return len(value) <= 16 and all(map(_is_literal, value))
    return type(value) in CONSTANT_TYPES


def _attr(source: Source | None, name: str) -> Source:
    if source is None:
        raise Unsupported(f"attribute {name!r} of unknown origin")
    return Attr(source, name)
