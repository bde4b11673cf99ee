"""Numbers drawn by NumPy's own generator: in order, as many as plain, whether they are looked at or not."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import capture

_OWN = np.random.RandomState(3)


def drops_no_layer(x):
    for layer in range(3):
        probability = np.random.uniform(0, 1)
        skips = x.requires_grad and probability < 0.5
        if not skips:
            x = x + layer
    return x


def within_bounds(x):
    a, b = np.random.rand(), np.random.random()
    np.random.randn()
    np.random.normal(0, 2.0)
    k, u = np.random.randint(3, 9), np.random.uniform(low=2, high=5.0)
    random.random()
    if 3 <= k < 9 and u > 1 and a <= 1 and -b <= 0 and k + 1 > 3 and np.random.randint(4) < 4:
        x = x * 2
    np.random.standard_normal()
    return x


def of_a_generator(x):
    return x + 1 if _OWN.rand() < 2 else x


def decides(x):
    return x if np.random.uniform(0, 1) < 0.5 else x + 1 + np.random.rand()


def of_arrays(x):
    return x + torch.from_numpy(np.random.rand(2)), np.random.uniform(0, 1, 3)


def gives(x):
    return x + 1, np.random.uniform(), np.random.randint(5), type(np.random.randint(5)), np.random.normal(2)


def raises(x):
    told = []
    for low, high in ((3, 2), (0.5, 2), (0, 2**70)):
        try:
            told.append(np.random.randint(low, high))
        except Exception as error:
            told.append(type(error))
    try:
        np.random.normal(0, -1)
    except ValueError as error:
        told.append(str(error))
    return told, x + 1


WHOLE = [drops_no_layer, within_bounds, of_a_generator]
BROKEN = [decides, of_arrays, gives, raises]


def outcome(fn: Callable[..., Any], seed: int) -> str:
    """What a call gives, and what is drawn after it."""
    np.random.seed(seed)
    random.seed(seed)
    _OWN.seed(seed)
    return repr((fn(torch.ones(2)), np.random.rand(), random.random(), _OWN.rand()))


@pytest.mark.parametrize("fn", [*WHOLE, *BROKEN], ids=lambda fn: fn.__name__)
def test_draws_as_plain(fn: Callable[..., Any]) -> None:
    compiled = capture.compile(fn, fullgraph=fn in WHOLE)
    for seed in range(6):
        assert outcome(compiled, seed) == outcome(fn, seed)
