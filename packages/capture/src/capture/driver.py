"""Capturing one frame: evaluate, and where that ends early, evaluate again up to the break and generate code for it.

In: a frame's function, code, arguments. Out: a ``Capture``: the graph, the guards, and the replacement code.
"""

from __future__ import annotations

import math
from typing import Any

from symshapes import MarkError, undisturbed_autograd

from ._torch import dispatch_mode_depth
from .attempt import Attempt, FrameInput, Stopped, in_forward_mode
from .errors import CaptureError, EvaluateAgain, GraphBreakError, SkipCall, SkipFrame, Unsupported
from .evaluator.machine import Experience, Machine
from .evaluator.places import earlier_step
from .evaluator.program import confuses_cells, looks_at_its_locals
from .evaluator.refusals import Refusals
from .graph import Break
from .guards import Guard
from .history import History, Place
from .replacement import Backend, Capture, Replacement
from .settings import restored
from .variables.reconstruction import CannotReconstruct


def capture_frame(
    frame: FrameInput,
    backend: Backend,
    *,
    dynamic: bool | None,
    fullgraph: bool,
    refusals: Refusals,
    history: History,
    freeze: bool = False,
) -> Capture:
    """Capture; raises ``GraphBreakError`` with ``fullgraph``, ``SkipFrame`` if the frame is to be left alone."""
    if looks_at_its_locals(frame.code):
        raise SkipFrame("it looks at its own local variables (locals, eval, ...)")
    confused = confuses_cells(frame.code)
    if confused is not None:
        raise SkipFrame(confused)
    if in_forward_mode():
        raise SkipCall("forward-mode differentiation is on")
    if dispatch_mode_depth():
        # It is to see the program's operations, and neither those on fakes nor kernels in their place.
        raise SkipCall("a mode watches every operation")
    break_at: int | None = None
    reason: Break | None = None
    ways = Ways(refusals)
    numbers, spread = Numbers(history), Spread(history)
    ran_ahead: set[Any] = set()
    raising: list[Guard] = []
    while True:
        if break_at is None:  # from the start, where it may stop at something else
            raising = []
        attempt = Attempt(
            frame, dynamic, Experience(refusals, history, ran_ahead, ways.says_compiling, numbers.symbolic, freeze)
        )
        with restored(), undisturbed_autograd():
            try:
                attempt.evaluate(break_at)
                if is_worthless(attempt, history):
                    break_at = before_call(attempt)
                    reason = Break(attempt.reason or "unknown", attempt.stopped_line())
                    continue
                attempt.m.recorder.check_views()
                if break_at is None and spread.another(attempt.m, attempt.finished):
                    continue
                if attempt.finished:
                    captured = Replacement(attempt, freeze=freeze).write(backend, [])
                    if fullgraph and captured.suspended:
                        what = captured.suspended[0]
                        raise GraphBreakError(f"it hands out {what}, which runs later", attempt.stopped_line())
                    numbers.settle()
                    history.add(attempt.m.recorder.dynamic_sizes.met)
                    return captured
                if attempt.m.recorder.dynamic_sizes.close():
                    continue
                if break_at is None and (numbers.another(attempt.m, attempt.m.state.step) or ways.another(attempt.m)):
                    if fullgraph:
                        reason = reason or Break(attempt.reason or "unknown", attempt.stopped_line())
                    continue
                if reason is None:
                    reason = Break(attempt.reason or "unknown", attempt.stopped_line())
                if fullgraph:
                    raise GraphBreakError(reason.reason, reason.user_line)
                before = earlier_step(attempt.m.recorder.placed, attempt.m.state.step)
                # What goes on after the break may write to what may be a copy, and would not know.
                before = min(before, attempt.m.recorder.doubtful or before)
                if before < attempt.m.state.step:
                    break_at = before
                    continue
                captured = Replacement(attempt, freeze=freeze).write(backend, [reason])
                captured.guards.extend(raising)
                history.add(attempt.m.recorder.dynamic_sizes.met)
                return captured
            except CannotReconstruct as problem:
                step = problem.variable.step
                if len(attempt.suspended) > 1 and (step < 1 or (break_at is not None and step >= break_at)):
                    # Before the call in which it was made.
                    step = attempt.suspended[-2].step
                if step < 1 or (break_at is not None and step >= break_at):
                    raise SkipFrame(f"{problem.why}, and no earlier place to break") from None
                if reason is None:
                    reason = Break(problem.why, attempt.line)
                break_at = earlier_step(attempt.m.recorder.placed, step)
            except Stopped as stopped:
                if is_worthless(attempt, history):
                    break_at, reason = before_call(attempt), Break(stopped.reason, stopped.user_line)
                    continue
                if break_at is None and spread.another(attempt.m, False):
                    continue
                if attempt.m.recorder.dynamic_sizes.close():
                    break_at = reason = None
                    continue
                if break_at is not None and stopped.step >= break_at:
                    raise SkipFrame(f"evaluation is not repeatable: {stopped.reason}") from None
                reason = reason or Break(stopped.reason, stopped.user_line)
                # A call of sizes with which the program does not raise is not to run this capture, which breaks for them.
                # Nor is one for which it need not break.
                raising = attempt.m.recorder.dynamic_sizes.varying() if stopped.raised else list(stopped.while_so)
                another = break_at is None and numbers.another(attempt.m, stopped.step)
                if another or ways.another(attempt.m, raised=stopped.raised):
                    break_at, reason = None, reason if fullgraph else None
                    continue
                break_at = earlier_step(attempt.m.recorder.placed, stopped.step)
            except EvaluateAgain:
                break_at = reason = None
                continue
            except Unsupported as problem:
                if spread.back() or attempt.m.recorder.dynamic_sizes.close():
                    break_at = reason = None
                    continue
                raise SkipFrame(problem.reason) from problem
            except (CaptureError, MarkError):
                raise
            except Exception as error:
                if (
                    spread.back() or attempt.m.recorder.dynamic_sizes.close()
                ):  # a size of 1 in arithmetic that others stand
                    break_at = reason = None
                    continue
                error.add_note(f"at {attempt.stopped_line()}")
                raise
            finally:
                attempt.m.release()


#: A capture of more instructions in which there is nothing to compile takes far longer than to run them.
_WORTH = 5_000


def is_worthless(attempt: Attempt, history: History) -> bool:
    """Whether an evaluation was given up for its length, with nothing to compile: piece by piece it would go on so."""
    m = attempt.m
    if m.recorder.graph.first_call is not None or m.state.break_at is not None:
        return False
    return (m.state.exhausted and m.state.instructions > _WORTH) or (m.state.took_many and history.is_worn_out())


def before_call(attempt: Attempt) -> int:
    """The step at which the frame called what took so long, which is to be run for real; raises ``SkipFrame`` where it took so long itself."""
    if attempt.m.state.in_long_call and attempt.frame.step > 1:
        return attempt.frame.step
    raise SkipFrame("more instructions than config.max_instructions, and nothing to compile")


class Numbers:
    """Whether numbers that change are symbols.

    Where an evaluation stops with some, it is seen whether it goes further with constants; from then on they are, if so.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self.symbolic = True
        self._symbols: list[Place] = []
        self._stopped_at: int | None = None

    def another(self, m: Machine, step: int) -> bool:
        """After an evaluation that stopped at ``step``: whether to start again, another way."""
        if self._stopped_at is None:
            self._symbols, self._stopped_at = m.recorder.dynamic_sizes.numbers, step
            self.symbolic = not self._symbols
            return not self.symbolic
        if self.symbolic:
            return False
        if step > self._stopped_at:
            self.settle()
            return False
        self.symbolic = True
        return True

    def settle(self) -> None:
        """The evaluation goes as far as it can."""
        if not self.symbolic:
            self._history.make_constant(self._symbols)


class Spread:
    """Whether all sizes of a tensor are symbols where one changes: from the second change on, unless the program gets less far so."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._reached: dict[bool, float] = {}
        self._settled = False

    def another(self, m: Machine, finished: bool) -> bool:
        """After an evaluation that finished or stopped: whether to start again, another way."""
        now = self._history.spread
        settled = self._settled if self._reached else finished if now else not m.recorder.dynamic_sizes.spreads()
        if settled:
            return False
        self._reached[now] = math.inf if finished else m.state.step
        if len(self._reached) == 1:
            self._history.spread = not now
            return True
        self._settled = True
        self._history.spread = self._reached[True] >= self._reached[False]
        return self._history.spread is not now

    def back(self) -> bool:
        """After a failure: whether to start again without."""
        again = self._history.spread and not self._settled
        if again:
            self._reached[True], self._settled, self._history.spread = 0, True, False
        return again


class Ways:
    """Which way a program is sent that asks whether a compiler traces it.

    First as if one did; where that is not captured whole, as in eager mode; if that is not either, the first way again,
    unless the program itself fails on it. Then no frame captured later is sent it either: half of a program on one way
    and half on the other is neither.
    """

    def __init__(self, learnt: Refusals) -> None:
        self._learnt = learnt
        self.says_compiling = not learnt.fails_traced
        self._tried = 0

    def another(self, m: Machine, *, raised: bool = False) -> bool:
        """After an evaluation that stopped: whether to start again, another way."""
        raised = raised or m.recorder.refused_by_operator
        if self._tried == 0 and m.state.asked_compiling and self.says_compiling:
            self._learnt.fails_traced = raised
        elif self._tried == 1 and self._learnt.fails_traced:
            self._learnt.fails_traced = not raised  # an exception of both ways is the program's own
            return False
        elif self._tried != 1:
            return False
        self._tried += 1
        self.says_compiling = not self.says_compiling
        return True
