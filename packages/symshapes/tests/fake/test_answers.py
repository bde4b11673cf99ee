"""A call that looks at data only to refuse it goes on with the answer that does not raise, and the run checks it."""

import pytest
import torch

from symshapes import FakeMode, ShapeEnv, UnbackedError, going_on


def mode() -> FakeMode:
    return FakeMode(ShapeEnv(), data_dependent=True)


def ended(fake_mode: FakeMode, run):
    """What it gives, once it stopped at a question."""
    with fake_mode:
        with pytest.raises(UnbackedError) as problem:
            run()
        return going_on(fake_mode, run, problem.value)


def test_other_answers_are_checked_by_the_run():
    fakes = mode()
    with fakes:
        x, q = torch.empty(3, 4), torch.empty(2)

    def run():
        if (x < 0).any():
            raise ValueError("negative")
        if not bool((q < 1).all()):
            raise RuntimeError("beyond")
        return torch.quantile(x, q, dim=1)

    assert ended(fakes, run).shape == (2, 3)
    env = fakes.shape_env
    told = [(check.error, check.message) for check in env.runtime_asserts]
    assert told[:2] == [(ValueError, "negative"), (RuntimeError, "beyond")]  # and what torch asks, if it does
    assert fakes.risks and env.answers is None


def draws_before(x):
    noise = torch.rand(3)
    if x.sum() > 0:
        raise ValueError
    return x + noise


def computes(x):
    return x + 1 if x.sum() > 0 else x - 1


def raises_later(x):
    if x.sum() > 0:
        x.sin()
        raise ValueError
    return x


def raises_either_way(x):
    raise ValueError if x.sum() > 0 else IndexError


def raises_an_exception_of_its_own(x):
    if x.sum() > 0:
        raise KeyError("large")
    return x


def writes_before(x):
    x.add_(1)
    if x.sum() > 0:
        raise ValueError
    return x


@pytest.mark.parametrize(
    "fn", [draws_before, writes_before, computes, raises_later, raises_either_way, raises_an_exception_of_its_own]
)
def test_what_does_more_with_an_answer_stops_there(fn):
    fakes = mode()
    with fakes:
        x = torch.empty(3)
    with pytest.raises(UnbackedError):
        ended(fakes, lambda: fn(x))
    assert not fakes.shape_env.runtime_asserts


def test_what_is_asked_again_is_answered_the_same():
    fakes = mode()
    with fakes:
        x, y = torch.empty(3), torch.empty(3)

    def run():
        bad = (x < 0).logical_and_(x < 1).any()  # what it writes to is its own
        if bad:
            raise ValueError("negative")
        if not bad:
            y.sin()
        if bad:
            raise IndexError("negative")
        if (y < 0).any():
            raise RuntimeError("another")
        return x + y

    assert ended(fakes, run).shape == (3,)
    assert [check.message for check in fakes.shape_env.runtime_asserts] == ["negative", "another"]


def test_words_with_a_number_in_them_are_told():
    fakes = mode()
    with fakes:
        spectrum, window = torch.empty(5, 9, dtype=torch.complex64), torch.empty(8)
    assert ended(fakes, lambda: torch.istft(spectrum, 8, 2, window=window)).shape == (16,)
    (check,) = [each for each in fakes.shape_env.runtime_asserts if "overlap" in each.message]
    assert check.error is RuntimeError
    assert "window overlap add min: 1" in check.message
