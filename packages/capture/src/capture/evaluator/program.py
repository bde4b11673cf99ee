"""A code object prepared for evaluation: operations by index, with their handlers, jump targets and exception table."""

from __future__ import annotations

import itertools
import os
import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any

from capture.bytecode import Instruction, decode, scan
from capture.bytecode.dialect import current
from capture.errors import Unsupported
from capture.identity_map import IdentityMap
from capture.trace_rules import is_library_line
from symshapes import is_generated

from .unevaluated import why_unevaluated

#: Takes the interpreter, the frame and the operation; the types are those of ``opcodes.registry``, which fills the table.
Handler = Callable[[Any, Any, "Op"], str | None]
#: By name of the operation.
HANDLERS: dict[str, Handler] = {}

#: What a frame's loop does by itself for the operations that only move values, half of all: nothing looks at the frame meanwhile.
ASKS_HANDLER, LOADS_LOCAL, LOADS_LITERAL, STORES_LOCAL, DOES_NOTHING = range(5)
#: By the handler, which says the same for all cases.
MOVES: dict[Handler, int] = {}
#: Types of constants of which one is as good as another, wherever it was made.
LITERALS = frozenset({int, float, bool, type(None)})


def _unknown(m: Any, frame: Any, op: Op) -> str | None:
    raise Unsupported(why_unevaluated(op.name, op.arg))


class Op:
    """One operation. ``target`` is the index jumped to, ``catch`` the index of its exception handler.

    ``catches`` tells an ``except`` from a ``finally`` or a ``with``, which go on raising. ``flags`` are the bits of ``arg``
    below a name's index. ``moves`` is what is done without the handler (``LOADS_LOCAL``, ...), where that can be.
    """

    __slots__ = (
        "arg",
        "catch",
        "catches",
        "depth",
        "flags",
        "handler",
        "index",
        "lasti",
        "line",
        "moves",
        "name",
        "place",
        "target",
        "value",
    )

    def __init__(
        self, index: int, name: str, arg: int | None, value: Any, line: int | None, handler: Handler, flag_bits: int
    ) -> None:
        self.index = index
        self.name = name
        self.arg = arg or 0
        self.flags = self.arg & ((1 << flag_bits) - 1) if flag_bits else 0
        self.value: Any = value
        self.line = line
        self.handler = handler
        self.target = -1
        self.catch = -1
        self.catches = False
        self.depth = 0
        self.lasti = False
        #: `Program.where` of it, once that was asked.
        self.place = ""
        self.moves = MOVES.get(handler, ASKS_HANDLER)
        if self.moves == LOADS_LITERAL and type(value) not in LITERALS:
            self.moves = ASKS_HANDLER


class Program:
    """The operations of ``code``; ``instructions`` are the same by index, for code generation. ``entry`` is the first RESUME.

    ``is_library``: its lines are not the user's own.
    """

    def __init__(self, code: CodeType) -> None:
        self._code = weakref.ref(code)
        self._instructions: list[Instruction] | None = None
        self.is_library = is_library_line(code.co_filename)
        self._place = f"{os.path.basename(code.co_filename)}:", f" in {code.co_name}"
        self._lines: dict[int | None, str] = {}
        read = scan(code)
        handler_of, flag_bits, lines = HANDLERS.get, current().flag_bits.get, _lines(code)
        self.ops = [
            Op(i, name, arg, value, lines[unit], handler_of(name, _unknown), flag_bits(name, 0))
            for i, (name, arg, value, unit) in enumerate(read.operations)
        ]
        self.entry = next((op.index for op in self.ops if op.name == "RESUME"), 0)
        for at, target in read.jumps:
            self.ops[at].target = target
        for entry, covered in read.handlers:
            self._cover(entry.target, entry.depth, entry.lasti, covered)
        #: The names of free variables, in order; and of those whose places among the locals hold cells, except for a while.
        self.free = code.co_freevars
        self.cells = frozenset({*code.co_cellvars, *(name for name in self.free if name not in code.co_varnames)})
        for op in self.ops:
            if op.moves == STORES_LOCAL and op.value in self.cells:
                op.moves = ASKS_HANDLER
        cells = {*code.co_cellvars, *self.free}
        #: Whether a comprehension's own variable lies, meanwhile, where a cell of the function does.
        self.hides_cells = bool(cells) and any(
            op.name == "LOAD_FAST_AND_CLEAR" and op.value in cells for op in self.ops
        )
        #: Why a frame of it is not evaluated within another's, if it is not.
        self.why_apart = self._why_apart(code)

    def _why_apart(self, code: CodeType) -> str | None:
        if is_generated(code):
            return f"generated code ({code.co_qualname} in {code.co_filename})"
        if _looks_at_its_locals(code, self.ops):  # a break within would leave only those that are read later
            return f"{code.co_qualname}, which looks at its own local variables"
        return confuses_cells(code)

    def _cover(self, target: int, depth: int, lasti: bool, covered: list[int]) -> None:
        """Note where it is handled what some operations raise."""
        catches = self._is_except(target)
        for at in covered:
            op = self.ops[at]
            op.catch, op.depth, op.lasti, op.catches = target, depth, lasti, catches

    @property
    def instructions(self) -> list[Instruction]:
        """The operations as they are written, made when first asked for."""
        if self._instructions is None:
            code = self._code()
            assert code is not None, "asked for by what has the code"
            self._instructions = decode(code)
        return self._instructions

    def where(self, op: Op) -> str:
        """``"file.py:12 in forward"``."""
        found = self._lines.get(op.line)
        if found is None:
            found = self._lines[op.line] = f"{self._place[0]}{op.line}{self._place[1]}"
        op.place = found
        return found

    def _is_except(self, index: int) -> bool:
        if self.ops[index].name != "PUSH_EXC_INFO":
            return False
        ends = ("CHECK_EXC_MATCH", "POP_EXCEPT", "RERAISE", "WITH_EXCEPT_START")
        first = next((op.name for op in itertools.islice(self.ops, index, None) if op.name in ends), "")
        return first in ("CHECK_EXC_MATCH", "POP_EXCEPT")


def _lines(code: CodeType) -> list[int]:
    """By code unit: its line, or that of what lies before it. Code without its table of lines, as tools make it, has one line."""
    found, line = [], code.co_firstlineno
    for start, end, number in code.co_lines():
        line = number or line
        found += [line] * ((end - start) // 2)
    return found + [line] * (len(code.co_code) // 2 - len(found))


def confuses_cells(code: CodeType) -> str | None:
    """In words, a name that is of a cell and of a free variable; None if none is.

    3.12 and 3.13 compile a comprehension so whose captured variable hides one of an enclosing function, and take one for the other.
    """
    if not code.co_cellvars or not code.co_freevars:
        return None
    both = sorted(set(code.co_cellvars) & set(code.co_freevars))
    return f"{both[0]!r} is a comprehension's variable and an enclosing function's, both in closures" if both else None


_programs: IdentityMap[CodeType, Program] = IdentityMap()


def program_of(code: CodeType) -> Program:
    """The program of a code object, decoded once."""
    found = _programs.get(code)
    if found is None:
        found = _programs[code] = Program(code)
    return found


def reset_programs() -> None:
    """Forget decoded programs: their operations have the handlers that there were."""
    _programs.clear()


#: Built-ins that read the calling frame's locals; ``vars`` and ``dir`` do without arguments.
FRAME_READERS = frozenset({"locals", "vars", "dir", "eval", "exec"})


#: The attribute of a frame that has them: of this one, as far as its code tells.
FRAME_LOCALS = "f_locals"


def looks_at_its_locals(code: CodeType) -> bool:
    """Whether the frame's local variables may be read as a whole, which a replacement does not keep."""
    return _may_look_at_its_locals(code) and _looks_at_its_locals(code, program_of(code).ops)


def _may_look_at_its_locals(code: CodeType) -> bool:
    return not FRAME_READERS.isdisjoint(code.co_names) or FRAME_LOCALS in code.co_names


def _looks_at_its_locals(code: CodeType, ops: list[Op]) -> bool:
    if not _may_look_at_its_locals(code):
        return False
    for op, following in itertools.pairwise(ops):
        if op.name == "LOAD_ATTR" and op.value == FRAME_LOCALS:
            return True
        if op.name != "LOAD_GLOBAL" or op.value not in FRAME_READERS:
            continue
        without_arguments = following.name in ("CALL", "PRECALL") and following.arg == 0
        if without_arguments or op.value in ("eval", "exec"):
            return True
    return False
