"""Random programs over arrays of all dtypes: what they return, change and share is NumPy's; always the same ones."""

from __future__ import annotations

import itertools
import linecache
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import capture

from .drawn import DTYPES, near, numbers

EXPRESSIONS = (
    "{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / {b}", "{a} // {b}", "{a} % {b}", "{a} ** 2", "-{a}", "abs({a})", "{a} + 1", "{a} * 2.5", "1 - {a}",
    "{a} > {b}", "{a} == {b}", "({a} > 0) & ({b} > 0)", "{a} @ {b}", "{a}.sum()", "{a}.sum(0)", "{a}.mean(-1)", "{a}.max()", "{a}.min(0)",
    "{a}.T", "{a}[0]", "{a}[-1]", "{a}[1:]", "{a}[::2]", "{a}[::-1]", "{a}[..., 0]", "{a}[None]", "{a}[{a} > 0]", "{a}[[0, 0]]", "np.take({a}, [0])",
    "{a}.reshape(-1)", "{a}.ravel()", "{a}.copy()", "{a}.squeeze()", "{a}.swapaxes(0, -1)", "np.asarray({a})", "np.expand_dims({a}, 0)",
    "{a}.astype(np.float32)", "{a}.astype(np.int32)", "{a}.astype(bool)", "{a}.real", "np.where({a} > {b}, {a}, {b})", "np.maximum({a}, {b})",
    "np.concatenate([{a}, {b}])", "np.stack([{a}, {b}])", "np.array([{a}.sum(), 1])", "np.full(3, {a}.sum())", "np.zeros_like({a})", "np.arange(3) * {a}",
    "np.sqrt(abs({a}))", "np.sin({a})", "np.clip({a}, 0, 2)", "np.sort({a})", "np.cumsum({a})", "np.argmax({a})", "np.any({a})", "{a}.all()",
    "np.diff({a})", "np.tile({a}, 2)", "np.repeat({a}, 2)", "np.roll({a}, 1)", "np.broadcast_to({a}, (2,) + {a}.shape)", "np.median({a})", "{a}.var()",
    "torch.from_numpy({a}).numpy()", "torch.as_tensor({a}).sum().numpy()", "np.unique({a})", "{a}.tolist()", "float({a}.sum())", "len({a})",
    "{a}.shape[0] * {b}", "np.flip({a})", "np.outer({a}, {b})", "np.add({a}, {b}, dtype=np.float64)", "[v for v in {a}][0]", "sum({a}.ravel()[:2])",
)  # fmt: skip
STATEMENTS = (
    "{a} += 1", "{a} *= {b}", "{a} -= {b}", "{a} /= 2", "{a}[0] = 1", "{a}[...] = {b}", "{a}[1:] = {a}[:-1]", "{a}[{a} > 1] = 0", "{a}[[0]] = 3",
    "{a}.fill(2)", "{a}.sort()", "{a}[::2] += 1", "{a}.T[0] = 7", "{a}[-1] = {b}[0]", "np.add({a}, 1, out={a})",
)  # fmt: skip
SHAPES = ((3,), (3, 3), (2, 3), (1, 3), ())


def written(draw: random.Random) -> str:
    names, lines = ["x", "y"], []
    for number in range(draw.randint(2, 7)):
        a, b = draw.choice(names), draw.choice(names)
        if draw.random() < 0.25:
            lines.append(draw.choice(STATEMENTS).format(a=a, b=b))
        else:
            lines.append(f"v{number} = {draw.choice(EXPRESSIONS).format(a=a, b=b)}")
            names.append(f"v{number}")
    return "\n    ".join(["def program(x, y):", *lines, f"return ({', '.join(names)})"]) + "\n"


def arguments(seed: int) -> list[Any]:
    draw = random.Random(seed)
    made = [numbers(draw.choice(DTYPES), draw.choice(SHAPES), seed + i, special=False) for i in range(2)]
    kind = draw.random()
    if kind < 0.1:
        made[1] = made[0]
    elif kind < 0.2 and made[0].ndim:
        made[1] = made[0][1:]
    return made


def alike(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray | np.generic):
        writable = np.asarray(a).flags.writeable == np.asarray(b).flags.writeable
        # Sums in single precision are rounded on the way, and may be made doubles then.
        return writable and near(np.asarray(a), np.asarray(b), 1e6 if a.dtype.itemsize > 4 else 10)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(alike, a, b))
    return bool(a == b or a != a or (isinstance(a, float) and np.isclose(a, b, 1e-3, 1e-3)))


def outcome(program: Callable[..., Any], args: list[Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return program(*args)
        except Exception as error:
            return type(error)


def shared(outcome: Any) -> list[bool]:
    arrays = [each for each in outcome if isinstance(each, np.ndarray)] if isinstance(outcome, tuple) else []
    return [np.shares_memory(a, b) for a, b in itertools.combinations(arrays, 2)]


@pytest.mark.parametrize("start", range(0, 60, 10))
def test_random_programs(start: int) -> None:
    for seed in range(start, start + 10):
        source = written(random.Random(seed))
        name = f"<random program over arrays {seed}>"
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        namespace: dict[str, Any] = {"np": np, "torch": torch}
        exec(compile(source, name, "exec"), namespace)
        capture.reset()
        compiled = capture.compile(namespace["program"])
        for call in range(3):
            theirs, ours = arguments(seed * 10 + call // 2), arguments(seed * 10 + call // 2)
            right, mine = outcome(namespace["program"], theirs), outcome(compiled, ours)
            assert alike(mine, right), f"{source}\n{arguments(seed * 10 + call // 2)}\n{right}\n{mine}"
            assert alike(ours, theirs), source
            assert shared(mine) == shared(right), source
