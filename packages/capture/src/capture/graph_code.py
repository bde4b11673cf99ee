"""An FX graph in, the function that runs it out, as bytecode: of graphs of calls, where a compiler would spend most of its time on text.

What FX writes for it, or `symshapes` does, is made where somebody looks at it.
"""

from __future__ import annotations

import opcode
import weakref
from collections.abc import Callable, Iterable
from functools import cache
from types import CodeType
from typing import Any

import torch
from torch import fx
from torch.fx.graph import CodeGen

from symshapes import LazyGraphModule, build_function, read_last

from ._native import address
from .bytecode.decode import CACHE_UNITS
from .bytecode.dialect import current

#: What a constant of the code stands for at each call: nothing can change it.
_CONSTANT = frozenset(
    {int, float, complex, bool, str, bytes, type(None), type(...), torch.device, torch.dtype, torch.layout, torch.memory_format}
)  # fmt: skip
_TUPLES = frozenset({tuple, torch.Size})
_LISTS = frozenset({list, fx.immutable_collections.immutable_list})
#: Flags of a function's code: its locals have places, and each call has its own.
_FLAGS = 0x03
#: An entry of a line table that tells no columns, and how many code units one speaks of at most.
_NO_COLUMNS, _MOST_UNITS = 0x80 | 13 << 3, 8
_CALLED = "forward"


class _NotPlain(Exception):
    """There is something in the graph that is left to text."""


class GraphCodeModule(LazyGraphModule):
    """One whose `forward` is put together without text, where the graph is one of plain calls."""

    def make_forward(self) -> Any:
        code = forward_code(self._graph)
        return super().make_forward() if code is None else build_function(code, _text_of(self), title="graph")


def _text_of(module: GraphCodeModule) -> Callable[[], str]:
    """What gives the text of a module's `forward` for as long as the module lives, which the function itself need not keep alive."""
    found = weakref.ref(module)

    def text() -> str:
        alive = found()
        return "" if alive is None else alive.shown_text()

    return text


def forward_code(graph: fx.Graph) -> CodeType | None:
    """The code of a function `forward`, with a line for each call, as its text has them; None for a graph of another kind."""
    if type(graph._codegen) is not CodeGen or graph._codegen._body_transformer is not None:
        return None
    try:
        return _Coder(graph).code()
    except _NotPlain:
        return None


@cache
def _units(name: str, arg: int = 0) -> bytes:
    """An operation as it lies in code."""
    code = opcode.opmap[name]
    above = b"".join(bytes((opcode.EXTENDED_ARG, arg >> shift & 0xFF)) for shift in (24, 16, 8) if arg >> shift)
    return above + bytes((code, arg & 0xFF)) + bytes(2 * CACHE_UNITS[code])


_NULL = _units("PUSH_NULL")


def _like() -> None:
    """What all such code is like."""


class _Coder:
    def __init__(self, graph: fx.Graph) -> None:
        self._nodes = list(graph.nodes)
        self._dialect = current()
        #: What is in the code's tables. Of locals by name, and of constants by identity, what pushes them.
        self._locals = {"self": 0}
        self._loads: dict[str, bytes] = {}
        self._consts: list[Any] = [None]
        self._const_loads: dict[int, bytes] = {address(None): _units("LOAD_CONST", 0)}
        self._names: dict[str, int] = {}
        self._attributes: dict[tuple[str, bool], bytes] = {}
        self._calls: dict[tuple[int, tuple[str, ...]], bytes] = {}
        #: The code of the node at hand, and how much that has pushed: no less than what lies on the stack at once.
        self._out: list[bytes] = []
        self._pushed = 0

    def code(self) -> CodeType:
        lines, parts = bytearray((_NO_COLUMNS, 0)), [_units("RESUME")]
        given, most = 1, 0
        names, loads, out = self._locals, self._loads, self._out
        for node, over in zip(self._nodes, read_last(self._nodes), strict=True):
            if node.type is not None or "is_wrapped" in node.meta:
                raise _NotPlain
            if node.op == "placeholder":
                if node.args or node.target != node.name or node.name in names:
                    raise _NotPlain
                names[node.name] = given
                loads[node.name] = _units("LOAD_FAST", given)
                given += 1
                continue
            out.clear()
            self._pushed = 0
            if node.op == "output":
                self._push(node.args[0])
                out.append(_units("RETURN_VALUE"))
            else:
                self._call(node)
                if node.users:
                    place = names[node.name] = len(names)
                    loads[node.name] = _units("LOAD_FAST", place)
                    out.append(_units("STORE_FAST", place))
                else:
                    out.append(_units("POP_TOP"))
                for name in over:
                    out.append(_units("DELETE_FAST", names[name]))
            if self._pushed > most:
                most = self._pushed
            part = b"".join(out)
            parts.append(part)
            _note_line(lines, len(part) // 2)
        return _like.__code__.replace(
            co_code=b"".join(parts),
            co_consts=tuple(self._consts),
            co_names=tuple(self._names),
            co_varnames=tuple(names),
            co_nlocals=len(names),
            co_argcount=given,
            co_stacksize=most,
            co_linetable=bytes(lines),
            co_exceptiontable=b"",
            co_firstlineno=1,
            co_flags=_FLAGS,
            co_name=_CALLED,
            co_qualname=_CALLED,
        )

    def _call(self, node: fx.Node) -> None:
        op, out = node.op, self._out
        args: tuple[Any, ...] = node.args
        kwargs: dict[str, Any] = node.kwargs
        if op == "call_function":
            function = self._const_loads.get(address(node.target)) or self._new(node.target)
            out += (_NULL, function) if self._dialect.null_beneath else (function, _NULL)
        elif op == "call_method" and args and type(args[0]) is fx.Node:
            out.append(self._loads[args[0].name])
            args = args[1:]
            out.append(self._attribute(str(node.target), method=True))
        elif op == "get_attr" and "." not in str(node.target):
            self._pushed = 1
            out.append(_units("LOAD_FAST", 0))
            out.append(self._attribute(str(node.target), method=False))
            return
        else:
            raise _NotPlain
        loads, consts = self._loads, self._const_loads
        for value in (*args, *kwargs.values()) if kwargs else args:
            kind = type(value)
            if kind is fx.Node:
                out.append(loads[value.name])
            elif kind in _CONSTANT:
                out.append(consts.get(address(value)) or self._new(value))
            else:
                self._push(value)
        count = len(args) + len(kwargs)
        self._pushed += (
            count + 3
        )  # the callable and what is beside it, and the names of keywords where they lie on the stack
        key = count, tuple(kwargs)
        called = self._calls.get(key)
        if called is None:
            called = self._calls[key] = b"".join(
                self._const(each.argval, each.opname) if each.arg is None else _units(each.opname, each.arg)
                for each in self._dialect.call(*key)
            )
        out.append(called)

    def _attribute(self, name: str, *, method: bool) -> bytes:
        found = self._attributes.get((name, method))
        if found is None:
            place = self._names.setdefault(name, len(self._names))
            if "LOAD_ATTR" in self._dialect.flag_bits:
                found = _units("LOAD_ATTR", place << 1 | method)
            else:
                found = _units("LOAD_METHOD" if method else "LOAD_ATTR", place)
            self._attributes[name, method] = found
        return found

    def _const(self, value: Any, operation: str) -> bytes:
        """An operation on a constant that was not met before."""
        self._consts.append(value)
        return _units(operation, len(self._consts) - 1)

    def _new(self, value: Any) -> bytes:
        """What pushes one."""
        found = self._const_loads[address(value)] = self._const(value, "LOAD_CONST")
        return found

    def _push(self, value: Any) -> None:
        kind = type(value)
        if kind is fx.Node:
            self._pushed += 1
            self._out.append(self._loads[value.name])
        elif kind in _CONSTANT or (kind is tuple and _is_constant(value)):
            self._pushed += 1
            self._out.append(self._const_loads.get(address(value)) or self._new(value))
        elif kind in _TUPLES:
            self._all(value, "BUILD_TUPLE")
        elif kind in _LISTS:
            self._all(value, "BUILD_LIST")
        elif kind is slice:  # as a constant it would leave code without a hash, on 3.11
            self._all((value.start, value.stop, value.step), "BUILD_SLICE")
        else:
            raise _NotPlain

    def _all(self, values: Iterable[Any], operation: str) -> None:
        count = 0
        for each in values:
            self._push(each)
            count += 1
        self._pushed += 1
        self._out.append(_units(operation, count))


def _is_constant(values: Iterable[Any]) -> bool:
    """Whether all that is in a tuple is, too."""
    for each in values:
        kind = type(each)
        if kind not in _CONSTANT and (kind not in _TUPLES or not _is_constant(each)):
            return False
    return True


def _note_line(lines: bytearray, units: int) -> None:
    """Code of so many units is of the next line."""
    delta = 2  # of one line, as such numbers are written
    while units > 0:
        taken = min(units, _MOST_UNITS)
        lines += bytes((_NO_COLUMNS | taken - 1, delta))
        units -= taken
        delta = 0
