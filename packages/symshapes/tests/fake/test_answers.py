"""A call that looks at data only to refuse it goes on with the answer that does not raise, and the run checks it."""

import pytest
import torch

from symshapes import FakeMode, ShapeEnv, UnbackedError, going_on


def mode() -> FakeMode:
    return FakeMode(ShapeEnv(), data_dependent=True)


def ended(fake_mode: FakeMode, run):
    """What it gives, once it stopped at a question."""
    with fake_mode:
        with pytest.raises(UnbackedError):
            run()
        return going_on(fake_mode, run)


def test_other_answers_are_checked_by_the_run():
    fakes = mode()
    with fakes:
        x, q = torch.empty(3, 4), torch.empty(2)

    def run():
        if (x < 0).any():
            raise ValueError("negative")
        return torch.quantile(x, q, dim=1)

    assert ended(fakes, run).shape == (2, 3)
    env = fakes.shape_env
    told = [(check.error, check.message) for check in env.runtime_asserts]
    assert told == [(ValueError, "negative"), (RuntimeError, "quantile() q values must be in the range [0, 1]")]
    assert fakes.risks and env.answers is None


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


@pytest.mark.parametrize("fn", [computes, raises_later, raises_either_way, raises_an_exception_of_its_own])
def test_what_does_more_with_an_answer_stops_there(fn):
    fakes = mode()
    with fakes:
        x = torch.empty(3)
    with pytest.raises(UnbackedError):
        ended(fakes, lambda: fn(x))
    assert not fakes.shape_env.runtime_asserts
