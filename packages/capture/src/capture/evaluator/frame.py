"""One frame under evaluation: locals, cells, value stack, and the loop that runs its operations."""

from __future__ import annotations

from collections.abc import Iterable
from types import CodeType
from typing import Any, Protocol

from capture import _native
from capture.errors import Unsupported, undecided
from capture.resume import group_end
from capture.variables.assumptions import State
from capture.variables.base import Interpreter, SymbolicRaise, Variable
from capture.variables.constants import Constant
from capture.variables.exceptions import ExceptionObject
from capture.variables.functions import Cell
from capture.variables.generators import Suspended
from capture.variables.iterators import StopIter
from capture.variables.placeholders import NULL
from capture.variables.reconstruction import Emitter
from capture.visits import Visit, Watched
from symshapes import UnbackedError

from .program import LOADS_LITERAL, LOADS_LOCAL, STORES_LOCAL, Op, Program, program_of

RETURN = "return"
YIELD = "yield"


class BreakHere(Exception):
    """Signal: this attempt breaks before the current step; ``reason`` is set if that was not known before."""

    def __init__(self, reason: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason


class HandlerState(Variable):
    """What PUSH_EXC_INFO saves: the exception that was being handled before the one that is handled now."""

    def __init__(self, previous: Variable | None, exception: Variable) -> None:
        self.previous = previous
        self.exception = exception

    def made_of(self) -> Iterable[Variable]:
        return (self.exception,)

    def reconstruct(self, e: Emitter) -> None:
        e.call(_native.swap_handled, [self.exception])


class Frame:
    """``local`` maps names to variables; unbound ones are absent. ``result`` is set by a return or yield.

    The graph may be broken in a frame that is ``resumable``: the root, and one whose caller is resumable and has nothing left
    to do in its operation but to push the result, or to drop it where ``drops``. Where it ``hands_over``, what it calls alone
    holds the arguments. ``step`` is where its operation began, and
    ``passed`` are functions that lie between it and what it called: their code, and which of their calls.
    """

    #: What its names are, where it is a class statement's; None: globals.
    names: dict[str, Variable] | None = None
    kw_names: tuple[str, ...] = ()
    result: Variable = NULL
    #: What a generator's is handling while it is suspended.
    handled: Variable | None = None
    drops = False
    hands_over = False
    #: What it was called with, if its caller holds that until it returns.
    given: tuple[Variable, ...] = ()
    passed: tuple[tuple[CodeType, int], ...] = ()
    passed_in: Op | None = None
    ip = 0
    step = 0
    #: Of a library's function that the program calls: what the graph had by then.
    extent = (-1, -1)

    def __init__(
        self,
        code: CodeType,
        module_globals: dict[str, Any],
        builtins: dict[str, Any],
        local: dict[str, Variable],
        closure: list[Cell],
        is_root: bool = False,
        resumable: bool = False,
        program: Program | None = None,
    ) -> None:
        if type(module_globals) is not dict:  # one that may answer for names that it does not have
            raise Unsupported(f"a function whose globals are a {type(module_globals).__name__}")
        self.code = code
        self.program = program = program or program_of(code)
        self.globals = module_globals
        self.builtins = builtins
        self.local = local
        self.cells: dict[str, Cell] = dict(zip(program.free, closure, strict=True)) if closure or program.free else {}
        #: Those that the frame begins with; in a comprehension that is evaluated in the frame others take their places.
        self.own_cells = self.cells.copy()
        self.stack: list[Variable] = []
        #: Put a value on top; and take the top away without looking at an input.
        self.push, self.pop_raw = self.stack.append, self.stack.pop
        self.is_root = is_root
        self.resumable = resumable
        self.op: Op = program.ops[0]

    def holds_cell(self, name: str) -> bool:
        """Whether what a name's place among the locals holds is a cell, except for a while."""
        return name in self.program.cells

    # The value stack

    def pop(self, m: Interpreter) -> Variable:
        """Take the top away, looked at."""
        return self.stack.pop().realize(m)

    def pop_many(self, count: int) -> list[Variable]:
        """The topmost ``count``, deepest first, not looked at."""
        if count == 0:
            return []
        taken = self.stack[-count:]
        del self.stack[-count:]
        return taken

    def line(self) -> str:
        """``"file.py:12 in forward"``."""
        return self.program.where(self.op)


class Progress(State, Protocol):
    """What running a frame needs of the evaluation's state beside what variables do."""

    #: Counts the operations of frames that are resumable.
    step: int
    #: Where a tracer watches: the lines evaluated in the current frame.
    visit: Visit | None

    def enter(self, frame: Frame) -> None:
        """A frame begins, or goes on; raises ``Unsupported`` where calls are nested too deep."""

    def leave(self, frame: Frame) -> None:
        """It ends, or is suspended."""

    #: The one before which the graph is to end.
    break_at: int | None

    #: What the captured frame was given of which it is seen when it dies.
    mortal: list[Variable]

    def check_mortal(self) -> None:
        """Raises ``Unsupported`` where no frame holds one of these any more."""

    def whole_call(self, extent: tuple[int, int]) -> int:
        """The step at which a library was called, in which evaluation stops, if all of that call is to be made for real; else 0."""

    def suspended_here(self, reason: str | None = None) -> BreakHere:
        """What is raised to break at the operation of the innermost frame, which is as it was before it."""

    def note_line(self) -> None:
        """Remember where evaluation stopped, before the frames are left."""


class Evaluation(Interpreter, Protocol):
    """The interpreter as running a frame needs it."""

    @property
    def state(self) -> Progress:
        """How far the evaluation is."""


def run(m: Evaluation, frame: Frame) -> str:
    """Evaluate until the frame returns or yields (``RETURN`` or ``YIELD``); ``frame.result`` holds the value."""
    state = m.state
    state.enter(frame)
    m.effects.activity += 1
    caller = state.visit
    ops = frame.program.ops
    if caller is not None:
        state.visit = caller if frame.is_root else caller.call(frame.code)
        ops = Watched(ops, state.visit)
    try:
        if frame.resumable:
            return _run_resumable(m, frame, ops)
        while True:
            try:
                while True:
                    op = frame.op = ops[frame.ip]
                    frame.ip += 1
                    signal = op.handler(m, frame, op)
                    if signal is not None:
                        return signal
            except SymbolicRaise as raised:
                unwind(m, frame, raised)
            state.count_instructions(1)
    except (SymbolicRaise, StopIter, BreakHere):
        raise
    except Exception:
        state.note_line()
        raise
    finally:
        state.visit = caller
        state.leave(frame)


def _run_resumable(m: Evaluation, frame: Frame, ops: list[Op]) -> str:
    """The same where every operation may be a graph break."""
    state, effects, is_root, break_at = m.state, m.effects, frame.is_root, m.state.break_at
    stack, local = frame.stack, frame.local
    push, pop = frame.push, frame.pop_raw
    moving = not state.mortal  # which are looked for after each operation
    at, step = frame.ip, state.step
    while True:
        op = ops[at]
        step += 1
        if is_root:  # others count where they jump
            state.count_instructions(1)
        moves = op.moves
        # What handlers do for operations that only move values, and without a trace of it: that they were evaluated, the next one notes.
        if moves and moving and step != break_at:
            if moves == LOADS_LOCAL:
                name = op.value
                if name in local:
                    push(local[name])  # and nothing here goes on holding it
                    at += 1
                    continue
            elif moves == LOADS_LITERAL:
                literal = Constant(op.value)
                literal.in_code = True
                push(literal)
                at += 1
                continue
            elif moves == STORES_LOCAL:
                name = op.value
                if stack[-1] is not NULL and not isinstance(local.get(name), Suspended):
                    local[name] = pop()
                    at += 1
                    continue
            else:
                at += 1
                continue
        frame.op = op
        frame.step = state.step = step
        if step == break_at:
            frame.ip = at
            raise state.suspended_here()
        frame.ip = at + 1
        before, activity = stack[:], effects.activity
        try:
            signal = op.handler(m, frame, op)
        except SymbolicRaise as raised:
            unwind(m, frame, raised)
            signal = None
        except UnbackedError as problem:
            reason = undecided(problem.expr)
            if effects.activity != activity:
                raise Unsupported(reason) from problem
            frame.stack[:], frame.ip, frame.kw_names = before, op.index, ()
            raise state.suspended_here(reason) from problem
        except Unsupported as problem:
            if effects.activity != activity or problem.step:
                raise
            earlier = state.whole_call(m.recorder.extent) if frame.program.is_library else 0
            if earlier:
                raise Unsupported(problem.reason, earlier, problem.while_so) from problem
            # Nothing happened in this step: the frame is as it was before it, ready to break here.
            frame.stack[:], frame.ip, frame.kw_names = before, op.index, ()
            raise state.suspended_here(problem.reason) from problem
        if signal is not None:
            return signal
        if state.mortal:
            state.check_mortal()
        at, step = frame.ip, state.step


def unwind(m: Evaluation, frame: Frame, raised: SymbolicRaise) -> None:
    """Go on at the handler of the failed operation; raises again if it has none."""
    op = frame.op
    exception = raised.exception
    if isinstance(exception, ExceptionObject):
        _pass(m, frame, exception)
    if op.catch < 0:
        try:
            raise raised
        finally:
            del (
                raised
            )  # its traceback has this frame: together they would outlive the attempt, with the program's objects
    del frame.stack[op.depth :]
    if op.lasti:
        frame.push(Constant(op.index))
    frame.push(exception)
    frame.ip = op.catch


def _pass(m: Evaluation, frame: Frame, exception: ExceptionObject) -> None:
    """Note what the interpreter notes of an exception that an operation of a frame lets out."""
    op = frame.op
    if exception.origin < 0:
        exception.origin = m.state.step
    if op.name == "RERAISE" or exception.way is None:
        return
    if op.name == "RAISE_VARARGS":
        if op.arg == 0:
            return
        exception.context = _context(m, exception)
    elif not exception.way and not exception.bare and not exception.took_place:
        exception.context = m.errors.handling(exception)
    if frame.passed_in is op:
        for code, which in reversed(frame.passed):
            calls = [i for i, each in enumerate(program_of(code).ops) if each.name == "CALL_FUNCTION_EX"]
            exception.way.append((code, calls[which]))
    exception.way.append((frame.code, group_end(frame.program.instructions, op.index)))


def _context(m: Evaluation, exception: ExceptionObject) -> Variable | None:
    """What is being handled where one is raised, which it keeps for its context; it has the old one where nothing is."""
    found = m.errors.handling(exception)
    if found is None and exception.context is not None and m.errors.handled is None and m.errors.current_outside(m):
        raise Unsupported("the exception that a caller is handling")
    # None is what the frame had where it went on within a handler, outside of which nothing was handled.
    if found is not None and m.builder.is_none(found.realize(m)):
        return exception.context or (None if exception.way else found)
    return found or exception.context


def resume_with_error(m: Evaluation, frame: Frame, raised: SymbolicRaise) -> None:
    """Throw into a suspended generator frame: as if the yield had raised."""
    try:
        unwind(m, frame, raised)
    finally:
        del raised
