"""A guard tree in, a program for the native checker out: each source one read, each fact one check.

Registers are given by depth, so that siblings share them; what relations need keeps its own.
"""

from __future__ import annotations

import struct
import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any

import torch

from capture import _native, _torch
from capture import sources as S
from capture.bytecode.decode import argument_names
from capture.guards.kinds import GlobalState, Guard, GuardKind, ShapePredicate
from capture.guards.shapes import compile_predicate, steps_of
from capture.guards.tree import GuardNode, GuardTree, related_sources

Instruction = tuple[str, int, int, int, Any, int]
_Read = tuple[str, int, Any]  # operation, number, object
_WORD = 2**62
_PLAIN = (int, bool, float, str, type(None))
_SIZE_READS = {"size": 0, "stride": 1, "offset": 2, "value": 3}


def lower(tree: GuardTree, code: CodeType) -> _native.GuardProgram:
    """The program for frames of `code`. Raises `ValueError` for a source that such frames do not have."""
    return _Lowering(tree, code).program()


class _Lowering:
    def __init__(self, tree: GuardTree, code: CodeType) -> None:
        self.tree = tree
        self.code = code
        self.arguments = argument_names(code)
        self.instructions: list[Instruction] = []
        self.texts: list[str] = []
        related = {source for guard in tree.relations for source in related_sources(guard)}
        self.kept = {source: register for register, source in enumerate(related)}
        self.registers = len(self.kept)

    def program(self) -> _native.GuardProgram:
        for guard in self.tree.state:
            self.emit_guard(guard, -1)
        for node in self.tree.roots.values():
            if not self.emit_entries(node):
                self.visit(node, None, 0)
        for guard in self.tree.relations:
            self.emit_relation(guard)
        return _native.GuardProgram(self.instructions, self.texts, self.registers)

    def emit_entries(self, root: GuardNode) -> bool:
        """One instruction for each constant that a module's dictionary must hold, if that is all there is to `root`."""
        if not isinstance(root.source, S.Const) or type(root.source.value) is not dict or root.guards:
            return False
        entries = root.children.values()
        if root.source in self.kept or not all(self.is_constant_entry(node) for node in entries):
            return False
        for node in entries:
            for guard in node.guards:
                entry = (root.source.value, node.source.variable, guard.expected)  # type: ignore[attr-defined]
                self.emit(("entry_equals", 0, entry), -1, -1, str(guard))
        return True

    def is_constant_entry(self, node: GuardNode) -> bool:
        """Whether all that is asked of a module's global is to be a plain constant."""
        return (
            isinstance(node.source, S.ModuleGlobal)
            and node.source not in self.kept
            and not node.children
            and bool(node.guards)
            and all(guard.kind is GuardKind.EQUALS and type(guard.expected) in _PLAIN for guard in node.guards)
        )

    def visit(self, root: GuardNode, parent: int | None, depth: int) -> None:
        """Read a node, check it, then what is read from it. A stack, since sources may nest deeply."""
        todo = [(root, parent, depth)]
        while todo:
            node, parent, depth = todo.pop()
            register = self.kept.get(node.source)
            if register is None:
                register = len(self.kept) + depth
                self.registers = max(self.registers, register + 1)
            read = _READS[type(node.source)](self, node.source)
            self.emit(read, register, -1 if parent is None else parent, f"{node.source.name} can be read")
            for guard in node.guards:
                self.emit_guard(guard, register)
            todo.extend((child, register, depth + 1) for child in reversed(node.children.values()))

    def emit(self, operation: _Read, dst: int, src: int, text: str) -> None:
        name, number, value = operation
        self.instructions.append((name, dst, src, number, value, len(self.texts)))
        self.texts.append(text)

    def emit_guard(self, guard: Guard, register: int) -> None:
        for operation in _CHECKS[guard.kind](guard.expected):
            self.emit(operation, -1, register, str(guard))

    def emit_relation(self, guard: Guard) -> None:
        registers = [self.kept[source] for source in related_sources(guard)]
        if guard.kind is GuardKind.SAME_OBJECT:
            self.emit(("same", 0, None), registers[0], registers[1], str(guard))
        elif guard.kind is GuardKind.DISTINCT:
            self.emit(("distinct", 0, tuple(registers)), -1, -1, str(guard))
        else:
            self.emit(_shape(guard.expected, registers), -1, -1, str(guard))

    def local(self, source: S.Local) -> _Read:
        if source.local not in self.arguments:
            raise ValueError(f"{source.local!r} is not an argument of {self.code.co_name}")
        return ("local", self.arguments.index(source.local), None)

    def free(self, source: S.Closure) -> _Read:
        if source.free not in self.code.co_freevars:
            raise ValueError(f"{source.free!r} is not a free variable of {self.code.co_name}")
        return ("free", self.code.co_freevars.index(source.free), None)


def _item(key: Any) -> _Read:
    return ("index", key, None) if type(key) is int and -_WORD < key < _WORD else ("key", 0, key)


# How each kind of source is read from its parent's value.
_READS: dict[type[S.Source], Callable[[_Lowering, Any], _Read]] = {
    S.Local: _Lowering.local,
    S.Closure: _Lowering.free,
    S.Global: lambda _, source: ("global", 0, source.variable),
    S.Builtin: lambda _, source: ("builtin", 0, source.builtin),
    S.ModuleGlobal: lambda _, source: ("key", 0, source.variable),
    S.Const: lambda _, source: ("const", 0, source.value),
    S.Attr: lambda _, source: ("dict_attr" if source.via_dict else "attr", 0, source.attr),
    S.Item: lambda _, source: _item(source.key),
    S.TypeOf: lambda _, source: ("type_of", 0, None),
    S.DictKeyAt: lambda _, source: ("key_at", source.index, None),
    S.Default: lambda _, source: ("default", source.index, None),
    S.KwDefault: lambda _, source: ("kwdefault", 0, source.keyword),
    S.CellContent: lambda _, source: ("cell", source.index, None),
    S.FunctionGlobal: lambda _, source: ("func_global", 0, source.variable),
    S.ClassEntry: lambda _, source: ("type_entry", 0, source.entry),
}


def _identity(expected: Any) -> list[_Read]:
    """By weak reference where that is possible, so that a guard keeps no model alive: a dead object fits nothing."""
    try:
        return [("is_weak", 0, weakref.ref(expected))]
    except TypeError:
        return [("is", 0, expected)]


def _equals(expected: Any) -> list[_Read]:
    if isinstance(expected, torch.Tensor):
        raise TypeError("a tensor is no constant: guard its identity or its metadata")
    if expected is None or isinstance(expected, (bool, type, torch.dtype)):
        return [("is", 0, expected)]
    return [("equals", 0, expected)]


def _tensor(meta: Any) -> list[_Read]:
    native = meta.layout is torch.strided and issubclass(meta.python_type, torch.Tensor)
    codes = _torch.tensor_codes(meta.dtype, meta.device) if native else None
    fields = (meta.python_type, meta.dtype, meta.device, meta.layout, meta.requires_grad, meta.sizes, meta.strides)
    return [("tensor", 0, _native.TensorSpec(*fields, codes, meta.keys))]


def _global_state(expected: GlobalState) -> list[_Read]:
    values = dict(expected.values)
    places = _torch.native_settings if len(expected.native) == len(_torch.native_settings) else {}
    pairs, by_python = b"", []
    for name in _torch.relevant_settings(values):
        if name in places:
            pairs += struct.pack("=QQ", places[name], expected.native[places[name]])
        else:
            by_python.append(("call_equals", 0, (_torch.STATE[name].read, (), values[name])))
    return [("state", 0, pairs), *by_python]


def _grad_mode(expected: bool) -> list[_Read]:
    if _torch.native_grad_mode:
        return [("grad_mode", int(expected), None)]
    return [("call_equals", 0, (torch.is_grad_enabled, (), expected))]


def _shape(predicate: ShapePredicate, registers: list[int]) -> _Read:
    inputs = tuple(
        (register, _SIZE_READS[size.what], size.dim) for register, size in zip(registers, predicate.inputs, strict=True)
    )
    steps = steps_of(predicate)
    if steps is not None:
        return ("shape", 0, (inputs, steps))
    return ("shape_predicate", 0, (inputs, compile_predicate(predicate)))


# How each fact about one value, or about none, is checked: all of the operations must hold.
_CHECKS: dict[GuardKind, Callable[[Any], list[_Read]]] = {
    GuardKind.TYPE: lambda expected: [("type", 0, expected)],
    GuardKind.ID: _identity,
    GuardKind.EQUALS: _equals,
    GuardKind.TENSOR: _tensor,
    GuardKind.LEN: lambda expected: [("len", expected, None)],
    GuardKind.DICT_KEYS: lambda expected: [("dict_keys", 0, tuple(expected))],
    GuardKind.HAS_KEY: lambda expected: [("has_key", 0, expected)],
    GuardKind.NO_KEY: lambda expected: [("no_key", 0, expected)],
    GuardKind.HAS_ATTR: lambda expected: [("has_attr", 0, expected)],
    GuardKind.NO_ATTR: lambda expected: [("no_attr", 0, expected)],
    GuardKind.NO_CLASS_ENTRY: lambda expected: [("no_type_entry", 0, expected)],
    GuardKind.CALLABLE: lambda expected: [("predicate", 0, expected.check)],
    GuardKind.GRAD_MODE: _grad_mode,
    GuardKind.GLOBAL_STATE: _global_state,
}
