"""Programs over NumPy's arrays that one graph holds: each a behaviour of its own. A program takes what ``ARGUMENTS`` makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

PROGRAMS: dict[str, Callable[..., Any]] = {
    "arithmetic": lambda x: (x + 1, 1 - x, x * x, x / 2, x // 2, x % 3, x**2, 2**x, -x, +x, abs(x)),
    "comparisons": lambda x: (x > 1, 1 >= x, x == x, x != 2, (x > 0) & (x < 3), (x > 0) | (x < 3), (x > 0) ^ (x < 3), ~(x > 1)),
    "ufuncs of numbers alone": lambda x: x + np.lcm(4, 6) + np.gcd(4, 6) + np.ldexp(1.5, 2),
    "numbers of Python's count for little": lambda x: (x.astype(np.float32) * 2.5, x.astype(np.int8) + 1, x.astype(np.float16) + 1),
    "scalars of NumPy's count": lambda x: (x.astype(np.float32) * np.float64(2), x.astype(np.int8) + np.int64(1)),
    "division of integers": lambda x: (x.astype(np.int32) / 2, x.astype(np.int32) // 2, x.astype(np.int32) // np.array([0])),
    "functions": lambda x: (np.sin(x), np.exp(x), np.sqrt(abs(x)), np.maximum(x, 1), np.arctan2(x, 2), np.log1p(abs(x))),
    "softmax": lambda x: np.exp(x - x.max(-1, keepdims=True)) / np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True),
    "reductions": lambda x: (x.sum(), x.mean(0), x.std(), x.var(ddof=1), x.max(1), x.min(), x.prod(), x.argmax(), x.argmin(1)),
    "reductions as functions": lambda x: (np.sum(x, axis=0), np.mean(x), np.max(x, axis=(0, 1)), np.all(x > -9), np.any(x > 9)),
    "positional axis and dtype": lambda x: (np.sum(x, 0, np.float32), x.sum(1, np.float32), x.cumsum(0)),
    "parts": lambda x: (x[0], x[-1], x[1:, ::2], x[..., 1], x[:, None, 0], x[np.newaxis].shape, x[0, 0], x[()].shape),
    "elements by places": lambda x: (x[[0, 1]], x[:, [0, 2]], x[np.array([1, 0])], x[[0, 1], [1, 2]], x[np.array([0, 1], np.uint8)]),
    "integers beside places": lambda x: x[None][0, :, [1, 2]],
    "elements by truths": lambda x: (x[x > 1], x[x.sum(1) > 0], x[:, np.array([True, False, True, False])]),
    "a scalar is a copy": lambda x: (lambda y, z: (y, z))(x[0, 0], x.__setitem__((0, 0), 9)),
    "attributes": lambda x: (x.shape, x.ndim, x.size, x.dtype, x.itemsize, x.nbytes, x.strides, x.T.shape, len(x)),
    "dtypes": lambda x: (x.dtype == np.float64, x.dtype.name, x.dtype.kind, np.issubdtype(x.dtype, np.floating), np.finfo(x.dtype).eps),
    "dtypes of several": lambda x: (np.result_type(x, np.float32), np.promote_types("i4", "f4"), np.dtype("i2").itemsize),
    "classes": lambda x: (isinstance(x, np.ndarray), isinstance(x.sum(), float), isinstance(x[0, 0], np.floating), type(x), type(x.sum())),
    "numbers out of arrays": lambda x: (float(x[0, 0]), int(x[1, 1]), bool(x[1, 2]), x[0, 1].item(), x.sum().item()),
    "lists out of arrays": lambda x: (x.tolist(), x[0].tolist(), (x > 1).tolist(), x.sum().tolist()),
    "iteration": lambda x: [row * i + value for i, row in enumerate(x) for value in row],
    "unpacking": lambda x: (lambda a, b, c: a - b + c)(*x),
    "shapes": lambda x: (x.reshape(-1), x.reshape(2, 6), x.reshape((4, 3)), x.ravel(), x.flatten(), x.swapaxes(0, 1), np.transpose(x)),
    "made of sizes": lambda x: (np.zeros(x.shape), np.ones((2, 3), np.int32), np.full(3, 7), np.eye(3), np.arange(5), np.linspace(0, 1, 5)),
    "made like": lambda x: (np.zeros_like(x), np.ones_like(x, np.int8), np.full_like(x, 3), np.empty_like(x).shape),
    "made of numbers": lambda x: (np.array([1, 2, 3]), np.array([[1.5, 2], [3, 4]]), np.asarray(3), np.array([True]), np.array([1, 2], np.int8)),
    "made of elements": lambda x: (np.array([x[0, 0], 1]), np.array([[x.sum(), 2], [3, 4]]), np.array([x[0], x[1]])),
    "put together": lambda x: (np.concatenate([x, x], 1), np.stack([x, x * 2]), np.vstack([x, x]), np.hstack((x, x)), np.append(x, 1)),
    "taken apart": lambda x: (np.split(x, 3), np.array_split(x, 2, axis=1), np.repeat(x, 2), np.tile(x, (2, 1)), np.roll(x, 1)),
    "products": lambda x: (x @ x.T, np.dot(x, x.T), np.matmul(x.T, x), np.outer(x[0], x[1]), np.einsum("ij,kj->ik", x, x), x[0] @ x[1]),
    "choices": lambda x: (np.where(x > 1, x, 0), np.clip(x, 0, 2), np.nonzero(x > 1), np.sort(-x), np.take(x, [0, 2]), np.diff(x)),
    "matrices": lambda x: (np.linalg.inv(x @ x.T + np.eye(3)), np.linalg.solve(x @ x.T + np.eye(3), x[:, 0]), np.linalg.det(x @ x.T)),
    "norms and transforms": lambda x: (np.linalg.norm(x), np.linalg.norm(x, axis=1), np.fft.fft(x[0]), np.fft.rfft(x)),
    "questions of floats": lambda x: (np.isnan(x), np.isfinite(x).all(), np.allclose(x, x), np.array_equal(x, x), np.isclose(x, 1)),
    "known numbers": lambda x: (np.sqrt(64), np.prod((2, 3)), np.sum([1, 2]), np.float32(3) + 1, np.pi * x, np.prod(x.shape)),
    "methods of ufuncs": lambda x: (np.add.reduce(x), np.multiply.outer(x[0], x[1]), np.maximum.reduce(x, axis=1)),
    "one memory in torch": lambda x: (torch.from_numpy(x).add_(1).sum(), x),
    "torch's tensors of arrays": lambda x: (torch.tensor(x), torch.as_tensor(x), torch.asarray(x), torch.tensor(x, dtype=torch.float32)),
    "torch's tensors of scalars": lambda x: (torch.tensor(x.sum()), torch.tensor(np.float32(2))),
    "tensors with scalars": lambda x: (torch.ones(2) * x.mean(), torch.ones(2) * np.float64(3), np.float32(2) * torch.ones(2), torch.ones(2) / np.sqrt(2)),
    "tensors and back": lambda x: torch.ones(3).numpy() * 2 + torch.arange(3).numpy(),
    "arrays of tensors": lambda x: (np.asarray(torch.ones(2)), np.array(torch.arange(3)), np.asarray(torch.ones(2)).sum()),
    "an array is itself": lambda x: (np.asarray(x) is x, np.array(x) is x, x.real is x, x.copy() is x),
    "written to by a part": lambda x: (x[0].__setitem__(slice(None), 5), x),
    "read only views": lambda x: (np.broadcast_to(x[0], (2, 4)), np.diagonal(x)),
    "backwards": lambda x: (x[::-1] + 1, x[:, ::-1] * 2, x[None, ::-1, 0], x[..., ::-1], x[2:0:-1], x[-1:-9:-2], x[0:2:-1], x[::-1][0, 0]),
    "turned round": lambda x: (np.flip(x), np.flip(x, 0), np.fliplr(x), np.flipud(x) + 1, x[::-1].cumsum(0)[::-1], x[::-1].copy()),
    "shares and quantiles": lambda x: (np.median(x), np.percentile(x, 30), np.quantile(x, 0.5, axis=0), np.count_nonzero(x > 1), np.unique(x)),
    "of no dimensions": lambda x: (np.asarray(2.0) + 1, np.asarray(2.0)[...], np.asarray(2.0)[()], np.array(3).reshape(1)),
}  # fmt: skip


def program(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Register a program that takes statements."""
    PROGRAMS[fn.__name__.replace("_", " ")] = fn
    return fn


@program
def assigned_in_place(x):
    x += 1
    x *= 2.0
    x[0] -= 3
    y = x[1]
    y **= 2
    return x, y


@program
def a_scalar_assigned_in_place_is_another(x):
    s = x.sum()
    before = s
    s += 1
    return before, s


@program
def overlapping_parts(x):
    x[1:] = x[:-1]
    x[:, 1:] = x[:, :-1]
    return x


@program
def elements_set(x):
    x[x > 2] = 0
    x[[0, 1], [1, 2]] = 7
    x[2] = np.arange(4)
    x[:, 0:1] = [[1], [2], [3]]
    return x


@program
def converted_when_set(x):
    whole = np.zeros(3, np.int32)
    whole[0] = 2.7
    whole[1:] = x[0, :2]
    return whole


@program
def results_put_elsewhere(x):
    out = np.empty_like(x)
    same = np.add(x, 1, out=out)
    np.multiply(out, 2, out)
    return out, same is out


@program
def divisions_by_zero_without_warnings(x):
    with np.errstate(divide="ignore", invalid="ignore"):
        y = x / (x - x)
    return y, np.log(x)


@program
def filled_and_sorted(x):
    y = -x
    y.sort()
    z = np.zeros(3)
    z.fill(2)
    return y, z


@program
def scalars_do_not_change(x):
    s = x.sum()
    view = s[None]
    other = s.reshape(1)
    array = np.asarray(s)
    view += 1
    other -= 1
    array[...] = 0
    return s, view, other, array


@program
def a_loop_over_rows(x):
    total = np.zeros(x.shape[1])
    for i in range(x.shape[0]):
        total += x[i] * i
    return total


@program
def a_tensor_sees_what_is_written_to_its_array(x):
    tensor = torch.zeros(3)
    array = tensor.numpy()
    array[1] = 5
    tensor[2] = 7
    return tensor, array


@program
def chosen_by_what_was_found(x):
    i = np.argmax(x[0])
    return x[:, i], x[1, i]


class Scaler:
    """Keeps arrays from one call to the next."""

    def __init__(self, data):
        self.mean, self.scale = data.mean(0), data.std(0) + 1

    def __call__(self, data):
        return (data - self.mean) / self.scale


@program
def a_class_that_keeps_arrays(x):
    return Scaler(x)(x)
