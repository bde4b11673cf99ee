"""What the program makes and changes while it is evaluated, and what the generated code must do again.

In: objects made and changed, as variables tell of them. Out: for the driver, which objects changed; for repeating, how much.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from capture._native import address
from capture.variables.base import Variable
from capture.variables.iterators import Iterator as ProgramIterator
from capture.variables.later_reads import LaterReads

from .state import EvaluationState


class SideEffects:
    """Objects made in one attempt are stamped with their step, objects changed are kept in the order of first change."""

    def __init__(self, state: EvaluationState, ran_ahead: set[Any]) -> None:
        self._state = state
        #: Counts whatever may change the state of the evaluation beyond the root frame's stack.
        self.activity = 0
        #: Counts what an evaluation leaves behind: changes of objects, and calls in the graph.
        self.changes = 0
        #: Counts changes that a ``__hash__`` may tell of.
        self.rewritten = 0
        #: Of each change of a tracked object, which one it was of, and at which step that was made.
        self.mutated_at: list[tuple[int, int]] = []
        #: Counts changes of those that are from outside the frame.
        self.outside = 0
        self.changed: dict[int, Variable] = {}
        #: The steps at which these were changed first.
        self.changed_at: dict[int, int] = {}
        #: What globals held that were written, each with the step.
        self.globals_let_go: list[tuple[int, Any]] = []
        #: Calls of functions that remember: to be made again, made before the frame ran, and of those told apart.
        self.remembered: list[Any] = []
        #: Calls that tell the outside something, before anything is changed.
        self.announced: list[Any] = []
        #: The objects that these calls may change, by address.
        self.listeners: dict[int, Any] = {}
        self.ran_ahead = ran_ahead
        #: Where it is noted what is read from outside the frame.
        self.reads: list[Any] | None = None
        #: Those that were made ahead; how often each was met; by their places among `remembered`, those to come that may tell the order.
        self.counted: set[Any] = set()
        self.times: dict[Any, int] = {}
        self.to_come: dict[int, Any] = {}
        self.limits: dict[int, Any] = {}
        self.later = LaterReads(ran_ahead)
        #: The context variables that were met; the contexts that the frame has entered, each in the one before.
        self.context_variables: list[Any] = []
        self.contexts: list[Any] = []
        self._made: list[Any] | None = None
        #: The iterators that the program has, and may have anywhere: a step of one is a change that is not told.
        self.iterators: weakref.WeakSet[ProgramIterator] = weakref.WeakSet()

    @property
    def other_changes(self) -> int:
        """Counts what an evaluation leaves behind beside changes of tracked objects."""
        return self.changes - len(self.mutated_at)

    @property
    def step(self) -> int:
        """The step that is evaluated."""
        return self._state.step

    def created(self, variable: Any) -> Any:
        """Note at which step a value was made."""
        variable.step = self._state.step
        if self._made is not None:
            self._made.append(variable)
        if isinstance(variable, ProgramIterator):
            self.iterators.add(variable)
        return variable

    @property
    def is_apart(self) -> bool:
        """Whether changes are noted apart."""
        return self._made is not None

    @property
    def made_apart(self) -> list[Any]:
        """What was made since changes are noted apart."""
        return self._made or []

    @contextmanager
    def apart(self) -> Iterator[Callable[[], bool]]:
        """Meanwhile changes are noted apart; gives what tells, afterwards, whether anything was changed that was there before."""
        changed, made = self.changed, self._made
        self.changed, self._made = {}, []
        mine, own, told = self.changed, self._made, len(self.announced) + len(self.remembered)
        try:
            yield (
                lambda: (
                    not mine.keys() <= {address(variable) for variable in own}
                    or len(self.announced) + len(self.remembered) != told
                )
            )
        finally:
            self.changed, self._made = changed, made
            if made is not None:
                made += own
            for key, variable in mine.items():
                changed.setdefault(key, variable)

    @contextmanager
    def noting_reads(self) -> Iterator[list[Any]]:
        """Meanwhile what is read from outside the frame is noted, by what it really is; of a global that the frame wrote, the variable."""
        outer, self.reads = self.reads, []
        try:
            yield self.reads
        finally:
            self.reads = outer

    def mutated(self, variable: Variable) -> None:
        """Note a change of a tracked object."""
        self.later.changes(variable)
        self.left_behind()
        self.mutated_at.append((address(variable), variable.step))
        self.outside += variable.source is not None
        self.rewritten += variable.may_tell_hashes
        self.changed.setdefault(address(variable), variable)
        self.changed_at.setdefault(address(variable), self._state.step)

    def let_go(self) -> Iterator[tuple[int, Any]]:
        """The objects that were held from outside where the frame began, and by that are not any more; each with a step before that."""
        for key, variable in self.changed.items():
            if variable.source is not None:
                for real in variable.let_go():
                    yield self.changed_at.get(key, 0), real
        yield from self.globals_let_go

    def has_changed(self, variable: Variable) -> bool:
        """Whether a change of it was noted."""
        place = address(variable)
        return place in self.changed or place in self.changed_at  # before what is noted apart

    def has_changed_input(self, variable: Variable) -> bool:
        """Whether it is from outside the frame, where a change of it is made after the graph."""
        return variable.source is not None and self.has_changed(variable)

    def has_changed_inputs(self) -> bool:
        """Whether anything from outside the frame was changed."""
        return any(variable.source is not None for variable in self.changed.values())

    def has_rewritten_inputs(self) -> bool:
        """Whether anything from outside the frame was changed that a ``__hash__`` may tell of."""
        return any(variable.source is not None and variable.may_tell_hashes for variable in self.changed.values())

    def left_behind(self) -> None:
        """Note that the program did what an evaluation cannot take back: a change, or a call in the graph."""
        self.activity += 1
        self.changes += 1

    def release(self) -> None:
        """Let go of the program's objects."""
        self.changed.clear()
        self.later.release()
        self.context_variables.clear()
        self.globals_let_go.clear()
        self.listeners.clear()
