"""Calls that look at data only to refuse it, as `quantile` looks whether all of its places are within 0 to 1.

In: a call on fakes that stopped at a question only the run can tell. Out: what it gives where it goes on, if each question's other answer
raises at once; that it is not the other the run checks (`ShapeEnv.runtime_asserts`), with the error that it raised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from symshapes.constraints import negation
from symshapes.env import ShapeEnv, UnbackedError
from symshapes.fake.mode import FakeMode
from symshapes.records import dataclass
from symshapes.runtime_checks import is_checked

#: A call that asks more than so often is not tried further.
_MOST = 8


@dataclass(frozen=True)
class Answer:
    """What a call goes on with, and what the other answer raises."""

    holds: bool
    error: type[Exception]
    message: str


class _Operations(TorchDispatchMode):
    """Whether any ran since the last question."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ran = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.ran = True
        return func(*args, **(kwargs or {}))


class Answers:
    """The answers to a call's questions, in turn; asked by symbolic bools in the place of their environment. A `trial` is that
    to the question after them, and nothing is promised."""

    def __init__(self, env: ShapeEnv, known: Sequence[Answer], trial: bool | None, operations: _Operations) -> None:
        self._env = env
        self._known = known
        self._trial = trial
        self._operations = operations
        self._asked = 0

    def of(self, condition: Any, hint: Any) -> bool:
        """Whether a condition holds. Raises `UnbackedError` where there is no answer left."""
        try:
            return bool(self._env.evaluate(condition, hint))
        except UnbackedError:
            place = self._asked
            self._asked += 1
            if place < len(self._known):
                answer = self._known[place]
                if self._trial is None:
                    promise = condition if answer.holds else negation(condition)
                    self._env.expect_true(promise, None, answer.error, answer.message)
                return answer.holds
            if self._trial is None or place > len(self._known):
                raise
            self._operations.ran = False
            return self._trial


def going_on(mode: FakeMode, run: Callable[[], Any]) -> Any:
    """What a call gives that raised an `UnbackedError` in `mode`, which is in force. Raises it once more where it does more with an answer than refuse."""
    answers = _answers(mode, run)
    if answers is None:
        return run()
    mode.risks += 1
    return _with(mode, answers, None, _Operations(), run)


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
    operations = _Operations()
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
    env.answers = Answers(env, known, trial, operations)
    try:
        return run()
    finally:
        env.answers = None
