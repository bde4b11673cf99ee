"""Calls that look at data only to refuse it, as `quantile` looks whether all of its places are within 0 to 1.

In: a call on fakes that stopped at a question only the run can tell. Out: what it gives where it goes on, if each question's other answer
raises at once; that it is not the other the run checks (`ShapeEnv.runtime_asserts`), with the error that it raised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

from symshapes.constraints import negation
from symshapes.env import ShapeEnv
from symshapes.facts import facts_of
from symshapes.fake.mode import FakeMode
from symshapes.fake.tensor import FakeTensor
from symshapes.records import dataclass
from symshapes.runtime_checks import is_checked
from symshapes.unbacked import UnbackedError

#: A call that asks more than so often is not tried further.
_MOST = 8


@dataclass(frozen=True)
class Answer:
    """What a call goes on with, and what the other answer raises."""

    holds: bool
    error: type[Exception]
    message: str


class _Operations(TorchDispatchMode):
    """Whether any ran since the last question, and whether one did what may not be done twice: drew, or wrote to what was there before.

    Where a call is tried (``tried``), the words of what it raises may show a number: torch copies it to a double on the host, and
    reads its memory. That is all that ever reads memory so, it decides nothing, and is given a number that is not the tensor's.
    """

    def __init__(self, mode: FakeMode) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ran = False
        self.acted = False
        self.tried = False
        self._mode = mode
        self._made: set[object] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.tried and func is _COPY and _is_shown(args[0], kwargs):
            with _disable_current_modes():
                return _SHOWN.clone()
        self.ran = True
        facts = facts_of(func)
        if facts.composite and not facts.written:
            with self:
                return self._mode.decompose(func, args, kwargs)
        written = _storages([each.of(args, kwargs) for each in (*facts.written, *facts.unsaid)])
        self.acted = self.acted or facts.random or facts.lasts or not written <= self._made
        found = func(*args, **kwargs)
        self._made |= _storages(found) - _storages([args, kwargs])
        return found


_COPY = torch.ops.aten._to_copy.default
_SHOWN = torch.ones((), dtype=torch.float64, device="cpu")


def _is_shown(tensor: torch.Tensor, kwargs: dict[str, Any]) -> bool:
    """Whether a copy is made as for a number that is to be written: see `_Operations`."""
    device = kwargs.get("device", tensor.device)
    return tensor.dim() == 0 and kwargs.get("dtype") is torch.float64 and device is not None and device.type == "cpu"


def _storages(values: Any) -> set[object]:
    return {value.storage_key for value in tree_leaves(values) if isinstance(value, FakeTensor)}


class Answers:
    """The answers to a call's questions, in turn; asked by symbolic bools in the place of their environment. A `trial` is that
    to the question after them, and nothing is promised."""

    def __init__(self, env: ShapeEnv, known: Sequence[Answer], trial: bool | None, operations: _Operations) -> None:
        self._env = env
        self._known = known
        self._trial = trial
        self._operations = operations
        self._asked = 0
        self._told: dict[Any, bool] = {}

    def check_asked(self) -> None:
        """Raises `UnbackedError` unless each answer was asked for: they may be those of other questions."""
        if self._asked != len(self._known):
            raise UnbackedError(next(iter(self._told), True))

    def of(self, condition: Any, hint: Any) -> bool:
        """Whether a condition holds. Raises `UnbackedError` where there is no answer left."""
        if condition in self._told:
            return self._told[condition]
        try:
            return bool(self._env.evaluate(condition, hint))
        except UnbackedError:
            if self._operations.acted:
                raise
            place = self._asked
            self._asked += 1
            if place < len(self._known):
                answer = self._known[place]
                if self._trial is None:
                    promise = condition if answer.holds else negation(condition)
                    self._env.expect_true(promise, None, answer.error, answer.message)
                told = answer.holds
            elif self._trial is None or place > len(self._known):
                raise
            else:
                self._operations.ran = False
                self._operations.tried = True
                told = self._trial
            self._told |= {condition: told, negation(condition): not told}
            return told


def going_on(mode: FakeMode, run: Callable[[], Any], problem: Exception) -> Any:
    """What a call gives that asked what only the run can tell, in `mode`, which is in force; `problem` is what that raised.

    Raises the same where the call does more with an answer than refuse, or wrote or drew before it asked.
    """
    answers = _answers(mode, run)
    if answers is None:
        raise problem
    mode.risks += 1
    return _with(mode, answers, None, _Operations(mode), run)


def _answers(mode: FakeMode, run: Callable[[], Any]) -> list[Answer] | None:
    known: list[Answer] = []
    while len(known) < _MOST:
        refusals, further = {}, {}
        for holds in (False, True):
            refusals[holds], further[holds] = _tried(mode, known, holds, run)
        refused = [holds for holds, error in refusals.items() if error is not None]
        if len(refused) != 1 or further[not refused[0]] is None:
            return None
        error = refusals[refused[0]]
        assert error is not None
        known.append(Answer(not refused[0], type(error), str(error).partition("\nException raised from")[0]))
        if not further[not refused[0]]:
            return known
    return None


def _tried(
    mode: FakeMode, known: Sequence[Answer], holds: bool, run: Callable[[], Any]
) -> tuple[Exception | None, bool | None]:
    """What an answer raises at once; and whether the call asks further with it, None if it does not come to its end."""
    operations = _Operations(mode)
    assert mode.shape_env is not None
    try:
        with _disable_current_modes(), mode, operations:
            _with(mode, known, holds, operations, run)
    except UnbackedError:
        return None, True
    except Exception as error:
        at_once = not operations.ran and is_checked(error)
        return (error if at_once else None), None
    return None, False


def _with(
    mode: FakeMode, known: Sequence[Answer], trial: bool | None, operations: _Operations, run: Callable[[], Any]
) -> Any:
    env = mode.shape_env
    assert env is not None
    env.answers = answers = Answers(env, known, trial, operations)
    try:
        found = run()
    finally:
        env.answers = None
    if trial is None:
        answers.check_asked()
    return found
