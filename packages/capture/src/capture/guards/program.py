"""A guard tree in, programs for the native checker out: each source one read, each fact one check.

Registers are given by depth, so that siblings share them; what relations need keeps its own.
"""

from __future__ import annotations

import struct
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any

import torch

from capture import _native, state_readers, tensor_readers
from capture import sources as S
from capture.bytecode.decode import argument_names
from capture.guards.kinds import GlobalState, Guard, GuardKind
from capture.guards.shapes import Step, compile_predicate, steps_of
from capture.guards.tree import LASTING, GuardNode, GuardTree, begins_lasting, related_sources
from capture.labels import HEAP_TYPE
from capture.settings import SETTINGS

Instruction = tuple[str, int, int, int, Any, int]
_Read = tuple[str, int, Any]  # operation, number, object
_Input = tuple[int, int, int]  # of a condition on sizes: register, what, dimension
_WORD = 2**62
_CLASS_DICT: _Read = ("class_dict", 0, None)
_SIZE_READS = {"size": 0, "stride": 1, "offset": 2, "value": 3, "float": 4}


def guard_program(
    tree: GuardTree, code: CodeType, inputs: Iterable[S.Source] = (), *, told_later: bool = False
) -> _native.GuardProgram:
    """The program for frames of `code`; its watched part's first pins are `inputs`, which must live on.

    Its texts are made at once; `told_later`, they are made when asked for, of the tree's guards and `readings`, which then are to let
    go of the program's objects. Raises `ValueError` for a source that such frames do not have, or an input that is not read from what lives on.
    """
    return _ProgramBuilder(tree, code, inputs, told_later).program()


class _Part:
    """One program in the making. The first registers hold the values that are needed after all are read."""

    def __init__(self, texts: list[Guard | str], kept: Iterable[S.Source]) -> None:
        self.instructions: list[Instruction] = []
        self.texts = texts
        self.kept = {source: register for register, source in enumerate(kept)}
        self.registers = len(self.kept)
        #: Conditions on sizes that need no Python, by their steps, inputs and texts: they are checked together, at the end.
        self.shapes: list[tuple[tuple[Step, ...], tuple[_Input, ...], Guard]] = []

    def register(self, depth: int) -> int:
        """That of what is read so deep, and needed only until the next is."""
        self.registers = max(self.registers, len(self.kept) + depth + 1)
        return len(self.kept) + depth

    def fresh(self) -> int:
        """A register of its own, once all that is read by depth is read."""
        self.registers += 1
        return self.registers - 1

    def emit(self, operation: _Read, dst: int, src: int, text: Guard | str) -> None:
        name, number, value = operation
        self.instructions.append((name, dst, src, number, value, len(self.texts)))
        self.texts.append(text)

    def check(self, guard: Guard, register: int) -> None:
        whole = _OF_EXPECTED.get(guard.kind)
        if whole is not None:
            number, expected = 0, guard.expected
            if type(expected) not in S.PLAIN_KEYS:
                whole, number, expected = _weakly(whole, expected)
            self.instructions.append((whole, -1, register, number, expected, len(self.texts)))
            self.texts.append(guard)
            return
        checks = _CHECKS[guard.kind](guard.expected)
        if guard.kind is GuardKind.ID and _is_namespace(guard.source):
            checks = _namespace(guard.expected)
        for name, number, value in checks:
            self.instructions.append((name, -1, register, number, value, len(self.texts)))
            self.texts.append(guard)

    def check_descriptor(self, guard: Guard, register: int, free: int) -> bool:
        """Check which descriptor it is, if it is one that may go: by its address and, weakly, by what it is made of.

        It takes no weak references, and what it is made of leads to globals, which may hold the very code that the guards belong to.
        Where it is gone, and another of the same lies there, that is as good. ``free``: a register for its parts.
        """
        parts = _parts(guard.expected)
        if not parts:
            return False
        self.registers = max(self.registers, free + 1)
        self.emit(("type", 0, type(guard.expected)), -1, register, guard)
        self.emit(("is_at", _native.address(guard.expected), None), -1, register, guard)
        for read, check in zip(parts[::2], parts[1::2], strict=True):
            self.emit(read, free, register, guard)
            self.emit(check, -1, free, guard)
        return True

    def relate(self, guard: Guard, registers: list[int]) -> None:
        """A relation between values that this part holds, in the order of its sources."""
        if guard.kind is GuardKind.SAME_OBJECT:
            self.emit(("same", 0, None), registers[0], registers[1], guard)
        elif guard.kind is GuardKind.DISTINCT:
            self.emit(("distinct", 0, tuple(registers)), -1, -1, guard)
        else:
            inputs = tuple(
                (register, _SIZE_READS[size.what], size.dim)
                for register, size in zip(registers, guard.expected.inputs, strict=True)
            )
            steps = steps_of(guard.expected)
            if steps is not None:
                self.shapes.append((steps, inputs, guard))
            else:
                operation = ("shape_predicate", 0, (inputs, compile_predicate(guard.expected)))
                self.emit(operation, -1, -1, guard)

    def check_shapes(self) -> None:
        """The conditions on sizes, each input read once, those of a tensor side by side."""
        if not self.shapes:
            return
        reads = sorted({read for _, inputs, _ in self.shapes for read in inputs})
        places = {read: place for place, read in enumerate(reads)}
        conditions = []
        for steps, inputs, guard in self.shapes:
            placed = tuple((name, places[inputs[number]] if name == "input" else number) for name, number in steps)
            conditions.append((placed, len(self.texts)))
            self.texts.append(guard)
        self.instructions.append(("shape", -1, -1, 0, (tuple(reads), tuple(conditions)), conditions[0][1]))


class _ProgramBuilder:
    """Splits the tree in two programs: about what a call brings, and about what lives on.

    What hangs from an object of fixed identity (a constant, the frame's globals, an argument that must be one object), or
    from a root, that is a bound module, lives on: it is watched, that is read again only once something of it changed.
    """

    def __init__(self, tree: GuardTree, code: CodeType, inputs: Iterable[S.Source], told_later: bool) -> None:
        self.tree = tree
        self.told_later = told_later
        self.code = code
        self.arguments = argument_names(code)
        texts: list[Guard | str] = []
        pinned = dict.fromkeys(inputs)
        for source in pinned:
            tree.node(source)
        beginnings = list(_beginnings(tree))
        living: list[GuardNode] = []
        for beginning in beginnings:
            beginning.gather(living)
        lasting = {node.source for node in living}
        if not lasting.issuperset(pinned):
            raise ValueError("an input that is not read from what lives on")
        #: By source: those that are bound, of what a call brings.
        self.roots = {node.source: i for i, node in enumerate(filter(_is_root, beginnings))}
        #: Numbers in what lives on that may be any: they are read in each call, from what holds them.
        self.varying = {
            node.source: node
            for node in living
            if node.guards and node.guards[0].kind is GuardKind.TYPE and _varies(node) and node.source not in pinned
        }
        lasting -= self.varying.keys()
        holders = [s.parent for s in self.varying if s.parent is not None and s.parent not in self.roots]
        related = dict.fromkeys(source for guard in tree.relations for source in related_sources(guard))
        read = [*self.roots, *self.varying, *(source for source in related if source not in lasting)]
        self.called = _Part(texts, dict.fromkeys(read))
        self.watched = _Part(texts, dict.fromkeys([*pinned, *(s for s in related if s in lasting), *holders]))
        #: The registers of what the part about a call has from the watched one.
        self._fetched: dict[S.Source, int] = {}
        #: What lives on among what a call brings, and how the watched part reads it.
        self.fixed: list[tuple[GuardNode, _Read]] = []

    def program(self) -> _native.GuardProgram:
        for guard in self.tree.state:
            self.called.check(guard, -1)
        holding = {source.root for source in self.roots}
        brought = [node for node in self.tree.roots.values() if not begins_lasting(node.source)]
        for node in (node for node in brought if node.source in holding):
            self.visit(self.called, node, _READS[type(node.source)](self, node.source), -1, 0)
        if self.roots:  # before the rest: of several programs those are passed over that know other objects only
            self.called.emit(("bound", 0, None), -1, -1, "what the call brings was met before")
        for node in (node for node in brought if node.source not in holding):
            self.visit(self.called, node, _READS[type(node.source)](self, node.source), -1, 0)
        for node in self.tree.roots.values():
            if isinstance(node.source, S.Const):
                self.visit(self.watched, node, _constant(node.source.value), -1, 0)
            elif isinstance(node.source, S.Namespace):
                self.visit(self.watched, node, (node.source.of, 0, None), -1, 0)
            elif isinstance(node.source, (S.Global, S.Builtin)) and node.source not in self.varying:
                self.visit_name(self.watched, node)
        for node, read in self.fixed:
            self.visit(self.watched, node, read, -1, 0)
        across = [guard for guard in self.tree.relations if not self.relates_lasting(guard)]
        watched = None
        if self.watched.instructions:
            watched = self.finish(self.watched)
            self.called.emit(("watched", 0, None), -1, -1, "what lives on")
        held = {node.source: self.held(node.source.parent) for node in self.varying.values() if node.source.parent}
        for guard in across:
            for source in () if guard.kind is GuardKind.DISTINCT else related_sources(guard):
                self.held(source)
        for source, node in self.varying.items():  # by now nothing is fetched any more that these reads might drop
            if source in held:
                self.visit(self.called, node, _READS[type(source)](self, source), held[source], 0)
            else:
                self.visit_name(self.called, node)
        for guard in across:
            self.relate_across(guard)
        return self.finish(self.called, watched)

    def finish(self, part: _Part, watched: _native.GuardProgram | None = None) -> _native.GuardProgram:
        part.check_shapes()
        texts = part.texts if self.told_later else [str(each) for each in part.texts]
        return _native.GuardProgram(part.instructions, texts, part.registers, watched, len(part.kept))

    def visit_name(self, part: _Part, node: GuardNode) -> None:
        """Visit one of the frame's globals or builtins."""
        holder = "globals" if isinstance(node.source, S.Global) else "builtins"
        register = part.register(0) if part is self.watched else part.fresh()
        part.emit((holder, 0, None), register, -1, f"the frame's {holder}")
        self.visit(part, node, ("key", 0, node.source.name), register, 1)

    def visit(self, part: _Part, root: GuardNode, read: _Read, parent: int, depth: int) -> None:
        """Read a node, check it, then what is read from it. A stack, since sources may nest deeply."""
        kept, instructions, texts, varying = part.kept, part.instructions, part.texts, self.varying
        readings = self.tree.readings
        called, unkept = part is self.called, len(part.kept)
        todo = [(root, read, parent, depth)]
        while todo:
            node, (operation, number, value), parent, depth = todo.pop()
            source = node.source
            register = kept.get(source, unkept + depth)
            if register >= part.registers:
                part.registers = register + 1
            instructions.append((operation, register, parent, number, value, len(texts)))
            if node.guards:
                texts.append(node.guards[0])  # which fails as well where there is nothing to read
            else:
                reading = Guard(source, GuardKind.READABLE)
                texts.append(reading)
                readings.append(reading)
            if called:
                if source in self.roots:
                    self.fixed.append((node, ("root", self.roots[source], None)))
                    continue
                identity = next((guard for guard in node.guards if guard.kind is GuardKind.ID), None)
                if identity is not None:
                    part.check(identity, register)
                    if node.children or len(node.guards) > 1 or not _is_namespace(source):
                        self.fixed.append((node, _constant(identity.expected)))
                    continue
            for guard in node.guards:
                if guard.kind is not GuardKind.ID or not part.check_descriptor(guard, register, unkept + depth + 1):
                    part.check(guard, register)
            if not node.children:
                continue
            for child in reversed(node.children.values()):
                to = child.source
                if varying and to in varying:
                    continue
                of_class = type(to) is S.Attr and to.attr == "__dict__" and _is_class(node)
                todo.append((child, _CLASS_DICT if of_class else _READS[type(to)](self, to), register, depth + 1))

    def relates_lasting(self, guard: Guard) -> bool:
        """Put a relation, or what of it can be, where all that it compares lives on. Whether that is all of it.

        A relation of objects, that is: which ones they are is watched, but not their sizes, and numbers are for each call.
        """
        if guard.kind is GuardKind.SHAPE:
            return False
        sources = related_sources(guard)
        held = [self.watched.kept[source] for source in sources if source in self.watched.kept]
        if len(held) == len(sources) or (guard.kind is GuardKind.DISTINCT and len(held) > 1):
            self.watched.relate(guard, held)
        return len(held) == len(sources)

    def relate_across(self, guard: Guard) -> None:
        """A relation of what a call brings, to itself or to what lives on."""
        sources = related_sources(guard)
        if guard.kind is not GuardKind.DISTINCT:
            self.called.relate(guard, [self.held(source) for source in sources])
            return
        brought = [self.called.kept[source] for source in sources if source in self.called.kept]
        # A root is in both parts: as what a call brings it is compared already, and it is not apart from itself.
        lives_on = [source for source in sources if source not in self.called.kept]
        lasting = tuple(self.watched.kept[source] for source in lives_on)
        if len(brought) > 1:
            self.called.relate(guard, brought)
        for register in brought if lasting else ():
            self.called.emit(("apart", 0, lasting), -1, register, guard)

    def held(self, source: S.Source) -> int:
        """The register of what a relation compares, fetched from the watched program if it is there."""
        if source in self.called.kept:
            return self.called.kept[source]
        register = self._fetched.get(source)
        if register is not None:
            return register
        register = self._fetched[source] = self.called.fresh()
        self.called.emit(("pinned", self.watched.kept[source], None), register, -1, f"{source.name} can be read")
        return register

    def local(self, source: S.Local) -> _Read:
        if source.local not in self.arguments:
            raise ValueError(f"{source.local!r} is not an argument of {self.code.co_name}")
        return ("local", self.arguments.index(source.local), None)

    def item(self, source: S.Item) -> _Read:
        key = source.key
        if type(key) is int and -_WORD < key < _WORD:
            return ("index", key, None)
        if type(key) in S.PLAIN_KEYS:
            return ("key", 0, key)
        self.tree.keyed = True
        return ("key", *_key(key))

    def free(self, source: S.Closure) -> _Read:
        return ("free", self.free_index(source.free), None)

    def free_index(self, name: str) -> int:
        if name not in self.code.co_freevars:
            raise ValueError(f"{name!r} is not a free variable of {self.code.co_name}")
        return self.code.co_freevars.index(name)


def _constant(value: Any) -> _Read:
    """Weakly where that is possible, so that a guard keeps no model or class alive."""
    try:
        return ("deref", 0, weakref.ref(value))
    except TypeError:
        return ("const", 0, value)


def _varies(node: GuardNode) -> bool:
    """Whether a value is a number of which nothing is asked but its type, or conditions on numbers."""
    if node.children or not node.guards or isinstance(node.source, S.Const):
        return False
    for guard in node.guards:  # noqa: SIM110  (without a generator: each node that lives on is asked)
        if guard.kind is not GuardKind.TYPE or guard.expected not in (int, float):
            return False
    return True


def _is_class(node: GuardNode) -> bool:
    """Whether it is known as a certain class."""
    value = node.source.value if isinstance(node.source, S.Const) else None
    return isinstance(value, type) or any(g.kind is GuardKind.ID and isinstance(g.expected, type) for g in node.guards)


def _beginnings(tree: GuardTree) -> Iterator[GuardNode]:
    """Where what lives on begins; all beneath does."""
    todo = [*tree.roots.values()]
    while todo:
        node = todo.pop()
        if begins_lasting(node.source) or any(guard.kind in LASTING for guard in node.guards):
            yield node
        else:
            todo.extend(node.children.values())


def _is_root(node: GuardNode) -> bool:
    """Whether it is known by what is true of it, and not by which object it is."""
    return not begins_lasting(node.source) and all(guard.kind is not GuardKind.ID for guard in node.guards)


def _key(key: Any) -> tuple[int, Any]:
    """How an operation is told a key: weakly, by a number, where that is possible. One that is gone is in no dictionary."""
    try:
        return 1, weakref.ref(key)
    except TypeError:
        return 0, key


def _weakly(operation: str, expected: Any) -> _Read:
    """A check of what is no constant. A class that is gone is not taken for one that lies where it lay."""
    if operation in ("has_key", "no_key"):
        return (operation, *_key(expected))
    if operation == "type" and type.__getattribute__(expected, "__flags__") & HEAP_TYPE:
        return ("type_weak", 0, weakref.ref(expected))
    return (operation, 0, expected)


def _dict_keys(keys: Any) -> list[_Read]:
    if S.PLAIN_KEYS.issuperset(map(type, keys)) or any(isinstance(key, weakref.ref) for key in keys):
        return [("dict_keys", 0, tuple(keys))]
    return [("dict_keys", 1, tuple(key if type(key) in S.PLAIN_KEYS else _key(key)[1] for key in keys))]


# How each kind of source is read from its parent's value.
_READS: dict[type[S.Source], Callable[[_ProgramBuilder, Any], _Read]] = {
    S.Local: _ProgramBuilder.local,
    S.Closure: _ProgramBuilder.free,
    S.ClosureCell: lambda builder, source: ("free_cell", builder.free_index(source.free), None),
    S.ModuleGlobal: lambda _, source: ("key", 0, source.variable),
    S.Attr: lambda _, source: ("dict_attr" if source.via_dict else "attr", 0, source.attr),
    S.Item: _ProgramBuilder.item,
    S.TypeOf: lambda _, source: ("type_of", 0, None),
    S.DictKeyAt: lambda _, source: ("key_at", source.index, None),
    S.DictValueAt: lambda _, source: ("value_at", source.index, None),
    S.Default: lambda _, source: ("default", source.index, None),
    S.KwDefault: lambda _, source: ("kwdefault", 0, source.keyword),
    S.CellContent: lambda _, source: ("cell", source.index, None),
    S.FunctionGlobal: lambda _, source: ("func_global", 0, source.variable),
    S.Referent: lambda _, source: ("referent", 0, None),
    S.Applied: lambda _, source: ("apply", source.index, source.function),
    S.Made: lambda _, source: ("made", 0, source.function),
    S.ClassEntry: lambda _, source: ("type_entry", 0, source.entry),
}


def _identity(expected: Any) -> list[_Read]:
    """By weak reference where that is possible, so that a guard keeps no model alive: a dead object fits nothing."""
    try:
        return [("is_weak", 0, weakref.ref(expected))]
    except TypeError:
        return [("is", 0, expected)]


def _is_namespace(source: S.Source | None) -> bool:
    """Whether it is the globals of the frame or of a function."""
    return isinstance(source, S.Namespace) or (
        isinstance(source, S.Attr) and source.attr == "__globals__" and not source.via_dict
    )


#: What each kind of descriptor that takes no weak references is made of, and can't be told to be of something else.
_DESCRIPTORS: dict[type, tuple[str, ...]] = {
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget", "fset", "fdel"),
    GetSetDescriptorType: ("__objclass__", "__name__"),
    MemberDescriptorType: ("__objclass__", "__name__"),
}


def _parts(value: Any) -> list[_Read]:
    """What to read of a descriptor, and to find; nothing where a module holds it for good, as it is one word to compare then."""
    names = _DESCRIPTORS.get(type(value))
    if names is None:
        return []
    read: list[_Read] = []
    for name in names:
        part = getattr(value, name)
        known = part is None or isinstance(part, type) or type(part) in (str, FunctionType)
        if not known or _is_of_module(part):
            return []
        check = ("is", 0, part) if part is None or type(part) is str else ("is_weak", 0, weakref.ref(part))
        read += (("attr", 0, name), check)
    return read


#: Of a class, whatever its metaclass has under that name.
_qualname: Callable[[type], str] = vars(type)["__qualname__"].__get__


def _is_of_module(part: Any) -> bool:
    """Whether it is a function or class that a module's own statements made, and the module is there."""
    if isinstance(part, FunctionType):
        name, place = str(part.__globals__.get("__name__")), part.__code__.co_qualname
    elif isinstance(part, type):
        name, place = str(vars(part).get("__module__")), _qualname(part)
    else:
        return False
    module = sys.modules.get(name)
    if "<locals>" in place or not isinstance(module, ModuleType):
        return False
    space = ModuleType.__getattribute__(module, "__dict__")
    return space is part.__globals__ if isinstance(part, FunctionType) else place.partition(".")[0] in space


def _namespace(expected: dict[str, Any]) -> list[_Read]:
    """By its address, as a dictionary has no weak references, and one of globals may hold the very code that the guards belong to.

    Where it is gone, and another lies there, all that is known of it is looked at anew, as when it has changed; what was read from
    those of a function holds them.
    """
    return [("is_at", _native.address(expected), None)]


def _equals(expected: Any) -> list[_Read]:
    if isinstance(expected, torch.Tensor):
        raise TypeError("a tensor is no constant: guard its identity or its metadata")
    if isinstance(expected, type):
        return _identity(expected)
    if expected is None or isinstance(expected, (bool, torch.dtype)):
        return [("is", 0, expected)]
    return [("equals", 0, expected)]


def _tensor(meta: Any) -> list[_Read]:
    native = meta.layout is torch.strided and issubclass(meta.python_type, torch.Tensor)
    codes = tensor_readers.tensor_codes(meta.dtype, meta.device) if native else None
    fields = (meta.python_type, meta.dtype, meta.device, meta.layout, meta.requires_grad, meta.sizes, meta.strides)
    return [("tensor", 0, _native.TensorSpec(*fields, codes, meta.keys))]


def _global_state(expected: GlobalState) -> list[_Read]:
    values = dict(expected.values)
    places = state_readers.native_settings if len(expected.native) == len(state_readers.native_settings) else {}
    pairs, by_python = b"", []
    for name in state_readers.relevant_settings(values):
        if name in places:
            pairs += struct.pack("=QQ", places[name], expected.native[places[name]])
        else:
            setting = SETTINGS[name]
            by_python.append(("call_equals", 0, (setting.query, setting.args, values[name])))
    return [("state", 0, pairs), *by_python]


def _grad_mode(expected: bool) -> list[_Read]:
    if state_readers.native_grad_mode:
        return [("grad_mode", int(expected), None)]
    return [("call_equals", 0, (torch.is_grad_enabled, (), expected))]


# The operations that check all there is to a fact, by what is expected: most facts are of these kinds.
_OF_EXPECTED: dict[GuardKind, str] = {
    GuardKind.TYPE: "type",
    GuardKind.HAS_KEY: "has_key",
    GuardKind.NO_KEY: "no_key",
    GuardKind.NO_KEYS: "no_keys",
    GuardKind.EMPTY_AT: "empty_at",
    GuardKind.HAS_ATTR: "has_attr",
    GuardKind.NO_ATTR: "no_attr",
    GuardKind.NO_CLASS_ENTRY: "no_type_entry",
    GuardKind.ANSWER: "call_equals",
}

# How each other fact about one value, or about none, is checked: all of the operations must hold.
_CHECKS: dict[GuardKind, Callable[[Any], list[_Read]]] = {
    GuardKind.ID: _identity,
    GuardKind.BOUND: lambda expected: [],
    GuardKind.EQUALS: _equals,
    GuardKind.TENSOR: _tensor,
    GuardKind.LEN: lambda expected: [("len", expected, None)],
    GuardKind.DICT_KEYS: _dict_keys,
    GuardKind.READABLE: lambda expected: [],
    GuardKind.EMPTY_CELL: lambda expected: [("empty_cell", 0, None)],
    GuardKind.CALLABLE: lambda expected: [("predicate", 0, expected.check)],
    GuardKind.GRAD_MODE: _grad_mode,
    GuardKind.GLOBAL_STATE: _global_state,
}
