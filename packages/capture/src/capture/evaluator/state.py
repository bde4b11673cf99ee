"""What one capture attempt holds: the graph, guards, memo of inputs, changed objects, and the frames being evaluated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn, cast

from torch import fx

from capture import _native, config
from capture.errors import NotConstant, Unsupported
from capture.graph import GraphBuilder
from capture.guards import Guard, GuardKind
from capture.settings import in_force
from capture.sources import Const, DictValueAt, Local, Source
from capture.trace_rules import is_library_line
from capture.variables.assumptions import Sourced
from capture.variables.base import Lazy, Variable
from capture.variables.constants import Constant
from capture.variables.exceptions import ExceptionObject
from capture.variables.signals import SymbolicRaise
from capture.visits import Visit
from symshapes import FakeMode

from .dynamic import DynamicSizes
from .frame import BreakHere, Evaluation, Frame
from .refusals import Refusals

_MAX_DEPTH = 150
#: Frames left for the work within one call, and for finalizers and signal handlers that run meanwhile: they are the
#: program's, which is nowhere near its limit of recursion when the evaluation is.
_ROOM = 300


class State:
    """Data of the attempt; the classes below it in the chain add behaviour, ``Machine`` is the whole."""

    def __init__(self, root_globals: dict[str, Any], dynamic: bool | None) -> None:
        self.root_globals = root_globals
        self.dynamic_sizes = DynamicSizes(dynamic, self.where)
        #: Torch's settings where the frame begins.
        self.entered_with = in_force()
        self.fake_mode = FakeMode(self.dynamic_sizes.env)
        self.graph = GraphBuilder()
        self.table: dict[Any, Guard] = {}
        self.memo: dict[int, tuple[Any, Variable]] = {}
        self.globals_read: dict[tuple[int, str], Variable] = {}
        self.written: dict[tuple[int, str], tuple[dict[str, Any], Variable | None]] = {}
        #: Entries that the program read, where they are: what guards they come to is known once all is evaluated.
        self.reached: dict[tuple[Source, GuardKind, Any], Lazy] = {}
        self.changed: dict[int, Variable] = {}
        self.frames: list[Frame] = []
        self.handled: Variable | None = None
        self.handled_origin = -1
        self.step = 0
        self.break_at: int | None = None
        self.instructions = 0
        #: Counts whatever may change the state of the evaluation beyond the root frame's stack.
        self.activity = 0
        #: Counts what an evaluation leaves behind: changes of objects, and calls in the graph.
        self.changes = 0
        #: Whether a body is evaluated only to see what it does.
        self.probing = False
        #: Calls of functions that remember: to be made again, made before the frame ran, and of those told apart.
        self.remembered: list[Any] = []
        self.ran_ahead: set[Any] = set()
        self.counted: set[Any] = set()
        self.limits: dict[int, Any] = {}
        #: Inputs that are keys of sets and dictionaries as the objects that they are.
        self.hashed: dict[int, Variable] = {}
        self.last_line = ""
        self.private: dict[int, Any] = {}
        self.refusals = Refusals()
        #: What the program is told when it asks whether a compiler traces it, and whether it has asked.
        self.says_compiling = True
        self.asked_compiling = False
        #: An operator refused what it was given: eager would raise, too.
        self.refused_by_operator = False
        #: Where a tracer watches: the lines evaluated in the current frame.
        self.visit: Visit | None = None
        #: Tensors whose place in autograd's graph was asked for, and at which step; see `places`.
        self.placed: list[tuple[int, fx.Node]] = []
        #: What the frame hands out unfinished, in words.
        self.suspended: list[str] = []

    @property
    def me(self) -> Evaluation:
        """This object as the classes below it make it."""
        return cast(Evaluation, self)

    # Frames and lines

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    def enter(self, frame: Frame) -> None:
        if len(self.frames) > _MAX_DEPTH or _native.frames_left() < _ROOM:
            raise Unsupported("calls nested too deep to inline")
        self.activity += 1
        self.frames.append(frame)

    def note_line(self) -> None:
        """Remember where evaluation stopped, before the frames are left."""
        self.last_line = self.last_line or self.where()

    def leave(self, frame: Frame) -> None:
        self.frames.pop()

    def begin_step(self, frame: Frame) -> None:
        """Count a root operation; the driver's break points are such counts."""
        self.step += 1
        if self.step == self.break_at:
            raise BreakHere
        self.count_instructions(1)

    def count_instructions(self, count: int) -> None:
        self.instructions += count
        if self.instructions > config.max_instructions:
            raise Unsupported("more instructions than config.max_instructions")

    def where(self) -> str:
        """The innermost line that is the user's: ``"file.py:12 in forward"``."""
        for frame in reversed(self.frames):
            if not is_library_line(frame.code.co_filename):
                return frame.line()
        return self.frames[0].line() if self.frames else ""

    # Errors of the program

    def make_exception(self, cls: type, args: list[Variable]) -> Variable:
        return self.created(ExceptionObject(cls, args))

    def throw(self, cls: type, message: str) -> NoReturn:
        """Raise a user-visible exception in the program under evaluation."""
        self.throw_value(cls, [Constant(message)])

    def throw_value(self, cls: type, args: list[Variable]) -> NoReturn:
        exception: Any = self.make_exception(cls, args)
        exception.origin = self.step
        raise SymbolicRaise(exception)

    def fold(self, function: Any, args: list[Any], kwargs: dict[str, Any] | None = None) -> Any:
        """Compute for real; an exception becomes the program's."""
        try:
            return function(*args, **(kwargs or {}))
        except RecursionError:
            # It is the evaluation that is deep here, not the program.
            raise Unsupported("calls nested too deep to inline") from None
        except Exception as error:
            try:
                values: list[Variable] = [self.me.builder.from_python(a) for a in error.args]
            except (Unsupported, NotConstant):
                raise Unsupported(f"{type(error).__name__}: {error}") from error
            self.throw_value(type(error), values)

    # Objects

    def created(self, variable: Any) -> Any:
        """Note at which step a value was made."""
        variable.step = self.step
        return variable

    def mutated(self, variable: Variable) -> None:
        """Note a change of a tracked object."""
        self.activity += 1
        self.changes += 1
        self.changed.setdefault(id(variable), variable)

    # Guards

    def add(self, source: Source | None, kind: GuardKind, expected: Any = None) -> None:
        """Add a guard once; none on objects that were computed for this capture alone."""
        if source is not None and self.private:
            root = source.root
            if isinstance(root, Const) and id(root.value) in self.private:
                return
        key: tuple[Any, ...] = (source, kind)
        if kind in (GuardKind.HAS_KEY, GuardKind.NO_KEY, GuardKind.HAS_ATTR, GuardKind.NO_ATTR) or kind in (
            GuardKind.SAME_OBJECT,
            GuardKind.DISTINCT,
            GuardKind.SHAPE,
            GuardKind.ANSWER,
            GuardKind.CALLABLE,
        ):
            key = (source, kind, expected)
        if key not in self.table:
            self.table[key] = Guard(source, kind, expected, self.where())

    def reach(self, entry: Sourced, table: Source, key: Any) -> None:
        """Note that the program read a dictionary's entry, which must be there even if its value never counts."""
        if isinstance(entry, Lazy) and entry.seen is None and not isinstance(entry.source, DictValueAt):
            self.reached[(table, GuardKind.HAS_KEY, key)] = entry

    def reach_content(self, content: Sourced) -> None:
        """The same of what a cell or a slot holds."""
        source = content.source
        if isinstance(content, Lazy) and content.seen is None and source is not None and not isinstance(source, Local):
            self.reached[(source, GuardKind.READABLE, None)] = content

    def presence_guards(self) -> Iterator[Guard]:
        """That what was read and not looked at further is there: passed on, replaced, deleted."""
        looked_at = {guard.source for guard in self.table.values()}
        for (source, kind, key), entry in self.reached.items():
            if entry.seen is None and entry.source not in looked_at:
                yield Guard(source, kind, key)
