"""One evaluation of a frame from its start: to its end, or to a step where it is to break or cannot go on.

In: a frame's function, code, arguments. Out: the machine's state there, or ``Stopped``.
"""

from __future__ import annotations

from types import CodeType, FunctionType
from typing import Any

import torch
from torch.autograd import forward_ad

from symshapes import UnbackedError, dataclass

from ._torch import mode_in_force, torch_function_depth
from .bytecode import argument_names
from .errors import NotConstant, Unsupported, undecided
from .evaluator import opcodes as _opcodes
from .evaluator.frame import BreakHere, Frame, run
from .evaluator.machine import Experience, Machine
from .evaluator.program import program_of
from .guards import Guard, GuardKind
from .resume import origin_of
from .settings import in_force
from .sources import Applied, Closure, ClosureCell, Const, Local, ModuleGlobal
from .target import parameters_behind
from .variables.base import SymbolicRaise, Variable
from .variables.constants import Constant
from .variables.functions import Cell
from .variables.lifetimes import acts_as_it_dies
from .variables.placeholders import Lazy, real_of
from .visits import Visit

_REGISTERED = (_opcodes,)

#: A tensor's tangent is nowhere in its metadata; there is none while no level of forward differentiation is entered.
_FORWARD_LEVEL = ModuleGlobal("torch.autograd.forward_ad", "_current_level", vars(forward_ad))
_NO_LEVEL = -1
#: What is read anew by each call, in the place of an object: the modes in force are no part of one.
_MODES = Const(None, "the torch-function modes")


def in_forward_mode() -> bool:
    """Whether a level of forward-mode differentiation is entered."""
    return bool(_FORWARD_LEVEL.namespace[_FORWARD_LEVEL.variable] != _NO_LEVEL)


@dataclass(frozen=True)
class FrameInput:
    """A frame at entry. ``args`` are the values of ``argument_names(code)``."""

    function: FunctionType
    code: CodeType
    args: tuple[Any, ...]
    globals: dict[str, Any]
    builtins: dict[str, Any]
    #: Whether a tracer watches: the replacement is then to pass the lines that the frame would.
    traced: bool = False
    #: The program's torch-function modes in force around it, innermost last.
    modes: tuple[Any, ...] = ()


class Stopped(Exception):
    """Signal: evaluation cannot go past a root step."""

    def __init__(
        self, step: int, reason: str, user_line: str, *, raised: bool = False, while_so: tuple[Guard, ...] = ()
    ) -> None:
        super().__init__(reason)
        self.raised = raised
        self.while_so = while_so
        self.step = step
        self.reason = reason
        self.user_line = user_line


class Attempt:
    """One evaluation of the frame from its start."""

    def __init__(self, frame: FrameInput, dynamic: bool | None, experience: Experience) -> None:
        self.code = frame.code
        self.m = Machine(frame.globals, dynamic, experience)
        entries = parameters_behind(self.code)
        local: dict[str, Variable] = {
            name: Lazy(value, Local(name, entries))
            for name, value in zip(argument_names(self.code), frame.args, strict=True)
        }
        closure: list[Cell] = []
        for name, real in zip(self.code.co_freevars, frame.function.__closure__ or (), strict=True):
            cell = self.m.builder.cell_at(real, Closure(name), ClosureCell(name))
            cell.name = name
            closure.append(cell)
        self.frame = Frame(self.code, frame.globals, frame.builtins, local, closure, is_root=True, resumable=True)
        self.m.state.given = dict(local)
        self.m.state.mortal = [each for each in local.values() if acts_as_it_dies(self.m, real_of(each))]
        self.m.state.visit = Visit(self.code, last=_line_before(self.code)) if frame.traced else None
        self.finished = False
        self.reason: str | None = None
        #: Torch's settings where the frame begins.
        self.before = in_force()
        self.m.guards.add(None, GuardKind.GRAD_MODE, torch.is_grad_enabled())
        self.m.guards.add(None, GuardKind.GLOBAL_STATE, self.m.recorder.settings_before.that_count())
        depth = torch_function_depth()
        places = enumerate(frame.modes, depth - len(frame.modes))
        self.m.modes.begin(Lazy(mode, Applied(_MODES, mode_in_force, place)) for place, mode in places)
        self.m.guards.add(_FORWARD_LEVEL, GuardKind.EQUALS, _NO_LEVEL)

    @property
    def suspended(self) -> tuple[Frame, ...]:
        """Where the graph broke: the frame, and those within it whose calls had not ended."""
        return self.m.state.suspended

    @property
    def line(self) -> str:
        """The user's line that is evaluated, as messages have it."""
        return self.frame.line()

    def evaluate(self, break_at: int | None) -> None:
        """Run to the end or to the given step; raises ``Stopped`` where it cannot go on."""
        m = self.m
        m.state.break_at = break_at
        try:
            run(m, self.frame)
            if m.modes.count:
                raise Stopped(
                    m.modes.since, "a torch-function mode that is in force beyond the frame", self.stopped_line()
                )
            if m.recorder.inference.inside:
                raise Stopped(m.recorder.inference.since, "inference mode beyond the frame", self.stopped_line())
            self.finished = True
        except BreakHere as here:
            self.reason = here.reason
            inference = m.recorder.inference
            for inside, since, what in (
                (m.modes.count, m.modes.since, "a torch-function mode"),
                (m.levels.inside, m.levels.since, "a function transform"),
                (inference.inside, inference.since, "inference mode"),
            ):
                if inside:
                    raise Stopped(since, here.reason or what, self.stopped_line()) from None
        except Unsupported as problem:
            step = problem.step or m.state.step
            raise Stopped(step, problem.reason, self.stopped_line(), while_so=problem.while_so) from problem
        except UnbackedError as problem:
            raise Stopped(m.state.step, undecided(problem.expr), self.stopped_line()) from problem
        except NotConstant as problem:
            raise Stopped(m.state.step, f"{problem} is not constant", self.stopped_line()) from problem
        except RecursionError as problem:
            raise Stopped(m.state.step, "recursion too deep to inline", self.stopped_line()) from problem
        except SymbolicRaise as raised:
            origin = getattr(raised.exception, "origin", -1)
            step = origin if 0 < origin <= m.state.step else m.state.step
            reason = f"the program raises {_described(raised)}"
            raise Stopped(step, reason, self.stopped_line(), raised=True) from None

    def stopped_line(self) -> str:
        """The user's line where evaluation stopped, maybe of a function that was called."""
        return self.m.state.last_line or self.line

    def guards(self) -> list[Guard]:
        """All that must hold for the capture to be used again."""
        return [*self.m.guards.all(), *self.m.classes.all(), *self.m.recorder.dynamic_sizes.guards()]


def _line_before(code: CodeType) -> int:
    """The line that the frame is in already: of a resume function that goes on in the middle of one."""
    origin = origin_of(code)
    if origin is None or origin.at == 0:
        return 0
    before, here = program_of(origin.code).ops[origin.at - 1 : origin.at + 1]
    return (here.line or 0) if before.line == here.line else 0


def _described(raised: SymbolicRaise) -> str:
    """The exception's class, and its message where that is known."""
    name = raised.exception.python_type().__name__
    args = getattr(raised.exception, "args", [])
    return f"{name}: {args[0]!r}" if args and isinstance(args[0], Constant) else name
