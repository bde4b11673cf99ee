"""How far an evaluation is: the frames being evaluated, the steps of the root frame, and what the program was told.

In: frames as they begin and end, operations as they are evaluated. Out: steps, lines for messages, limits that are kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any

from capture import _native, config
from capture.errors import Unsupported
from capture.variables.base import Variable
from capture.variables.iterators import Iterator
from capture.variables.payloads import whole
from capture.variables.placeholders import real_of, resolved
from capture.variables.reconstruction import CannotReconstruct
from capture.variables.weak_references import OwnReference
from capture.visits import Visit

from .frame import BreakHere, Frame
from .library_calls import whole_call
from .program import Op

_MAX_DEPTH = 150
#: Frames left for the work within one call, and for finalizers and signal handlers that run meanwhile: they are the
#: program's, which is nowhere near its limit of recursion when the evaluation is.
_ROOM = 300


class EvaluationState:
    """The frames and the step of one attempt."""

    def __init__(self, says_compiling: bool, freezes: bool = False) -> None:
        self.frames: list[Frame] = []
        #: For each of them the innermost one of the user's own code; the outermost where there is none.
        self._shown: list[Frame] = []
        #: Counts the operations of resumable frames; the driver's break points are such counts.
        self.step = 0
        #: The frames where the graph broke, the captured one first.
        self.suspended: tuple[Frame, ...] = ()
        self.break_at: int | None = None
        #: The classes that are asked below autograd of which tensors were met.
        self.followed: set[type] = set()
        #: What the captured frame was given; and of that, of which it is seen when it dies.
        self.given: dict[str, Variable] = {}
        self.mortal: list[Variable] = []
        self.instructions = 0
        #: How many of them there were as the captured frame made the call that it is in.
        self.before_call = 0
        #: Whether it came to its end for its length, and whether as it had taken so many of an iterator's elements.
        self.exhausted = False
        self.took_many = False
        self.in_long_call = False
        #: Counts the frames that began or went on.
        self.entered = 0
        self.last_line = ""
        self._in: Frame | None = None
        self._at: Op | None = None
        self._line = ""
        #: A line that is the user's wherever evaluation is; empty: that of the innermost frame.
        self._told_line = ""
        #: Whether a body is evaluated only to see what it does.
        self.probing = False
        #: How deep in arms of an `if` of which the run takes one: what is evaluated may never be done.
        self.in_arms = 0
        #: How many instructions and changes there were as the outermost of these began.
        self.arms_began = 0, 0
        #: Whether parameters are to be constants of the graph, which they cannot be with control flow in it.
        self.freezes = freezes
        #: Meanwhile, by function and key, what functions that remember gave: each runs once for a key.
        self.probed: dict[Any, Any] = {}
        #: What the program is told when it asks whether a compiler traces it, and whether it has asked.
        self.says_compiling = says_compiling
        self.asked_compiling = False
        #: Whether a function that goes on met a cell of its own without a value, which its code itself takes for another's.
        self.lost_cell = False
        #: Where a tracer watches: the lines evaluated in the current frame.
        self.visit: Visit | None = None

    @property
    def frame(self) -> Frame:
        """The innermost frame."""
        return self.frames[-1]

    def enter(self, frame: Frame) -> None:
        """A frame begins, or goes on; raises ``Unsupported`` where calls are nested too deep."""
        if len(self.frames) > _MAX_DEPTH or _native.frames_left() < _ROOM:
            raise Unsupported("calls nested too deep to inline")
        if len(self.frames) == 1:
            self.before_call = self.instructions
        self._shown.append(self._shown[-1] if self._shown and frame.program.is_library else frame)
        self.frames.append(frame)
        self.entered += 1

    def release(self) -> None:
        """Let go of the frames, and of what the captured one was given."""
        self.frames.clear()
        self._shown.clear()
        self._in = None
        self.suspended = ()
        # Variables that refer to each other in circles live on: not so what the captured frame was given.
        for each in (*self.given.values(), *map(resolved, self.mortal)):
            vars(each).pop("value", None)
        self.given.clear()
        self.followed.clear()
        self.mortal.clear()

    def may_catch(self) -> bool:
        """Whether a handler surrounds what is evaluated, in any frame."""
        for frame in self.frames:  # noqa: SIM110  (without a generator: each call in a graph asks)
            if frame.op.catches:
                return True
        return False

    @property
    def moment(self) -> tuple[int, int, int]:
        """What differs for any two operations of the program."""
        return self.entered, self.instructions, self.frames[-1].ip

    def leave(self, frame: Frame) -> None:
        """It ends, or is suspended."""
        self.frames.pop()
        if self._shown.pop() is self._in:
            self._in = None

    def check_mortal(self) -> None:
        """Raises ``Unsupported`` where no frame holds one that is mortal any more: the step is made for real."""
        held = {id(resolved(v)) for f in self.frames for v in (*f.local.values(), *f.stack)}
        held |= {
            id(resolved(cell.content)) for f in self.frames for cell in f.cells.values() if cell.content is not None
        }
        for each in self.mortal:
            if id(resolved(each)) not in held and not self.holds(resolved(each)):
                kind = type(real_of(each)).__name__
                raise Unsupported(f"letting go of a {kind}, which does something when it dies", self._begun_step())

    def _begun_step(self) -> int:
        """The step of the innermost frame that has begun: before that there is nothing to go on with in it, so that its call is made for real."""
        for frame in reversed(self.frames):
            if any(op.name == "RESUME" for op in frame.program.ops[: frame.op.index]):
                return frame.step
        return self.step

    def may_be_gone(self, value: object) -> bool:
        """Whether the captured frame was given an object that no frame is seen to hold any more."""
        given = [each for each in self.given.values() if real_of(each) is value]
        return bool(given) and not any(self.holds(resolved(each)) for each in given)

    def holds(self, wanted: Variable) -> bool:
        """Whether a frame is seen to hold an object, or something that is made of it.

        Iterators are not looked into: they let go of what they go over where it ends.
        """
        met: set[int] = set()
        left: list[Any] = []
        for frame in self.frames or self.suspended:
            left += [*frame.local.values(), *frame.stack, *frame.cells.values()]
        while left:
            each = whole(resolved(left.pop()))
            if each is wanted:
                return True
            if id(each) in met or isinstance(each, (OwnReference, Iterator)):
                continue
            met.add(id(each))
            with contextlib.suppress(CannotReconstruct):
                left += [part for part in each.made_of() if part is not None]
        return False

    def whole_call(self, extent: tuple[int, int]) -> int:
        """The step at which a library was called, in which evaluation stops, if all of that call is to be made for real; else 0."""
        return whole_call(self.frames, extent)

    def suspended_here(self, reason: str | None = None) -> BreakHere:
        """What is raised to break at the operation of the innermost frame, which is as it was before it."""
        self.suspended = tuple(self.frames)
        if len(self.frames) > 1:
            self.note_line()
        return BreakHere(reason)

    def count_instructions(self, count: int) -> None:
        """Raises ``Unsupported`` where an evaluation takes too long."""
        self.instructions += count
        if self.instructions > config.max_instructions:
            self.exhausted = True
            self.note_depth()
            raise Unsupported("more instructions than config.max_instructions")

    def note_depth(self) -> None:
        """Remember whether most of a long evaluation was one call of the captured frame's."""
        self.in_long_call = len(self.frames) > 1 and 2 * self.before_call < self.instructions

    def note_line(self) -> None:
        """Remember where evaluation stopped, before the frames are left."""
        self.last_line = self.last_line or self.where()

    @contextlib.contextmanager
    def at(self, line: str) -> Generator[None]:
        """Meanwhile this is the user's line, unless it is empty."""
        before, self._told_line = self._told_line, line
        try:
            yield
        finally:
            self._told_line = before

    def where(self) -> str:
        """The innermost line that is the user's: ``"file.py:12 in forward"``."""
        if self._told_line:
            return self._told_line
        if not self._shown:
            return ""
        frame = self._shown[-1]
        if (
            frame is not self._in or frame.op is not self._at
        ):  # an operation assumes several facts, and may call libraries
            self._in, self._at = frame, frame.op
            self._line = frame.op.place or frame.line()
        return self._line
