"""Marks by which a program says what changes, and their errors."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.dynamic.contender import Contender
from benchmarks.dynamic.registry import Family

row = Family("marks")
SIZES = (5, 8, 12, 33)


@row.program(automatic=1)
def marked_dynamic(contender: Contender) -> list[Any]:
    compiled, found = contender.compile(lambda x: x * 2 + x.size(0)), []
    for n in SIZES:
        x = torch.randn(n, 4)
        contender.mark_dynamic(x, 0)
        found.append(compiled(x))
    return found


@row.program(automatic=1)
def marked_dynamic_two_dims(contender: Contender) -> list[Any]:
    compiled, found = contender.compile(lambda x: x.sum(1) * x.size(0)), []
    for n in SIZES:
        x = torch.randn(n, n + 3)
        contender.mark_dynamic(x, (0, 1))
        found.append(compiled(x))
    return found


@row.program(automatic=1)
def marked_dynamic_first_only(contender: Contender) -> list[Any]:
    compiled, found = contender.compile(lambda x: x.relu() + 1), []
    for n in SIZES:
        x = torch.randn(n, 4)
        if n == SIZES[0]:
            contender.mark_dynamic(x, 0)
        found.append(compiled(x))
    return found


@row.program(automatic=1)
def marked_range(contender: Contender) -> list[Any]:
    compiled, found = contender.compile(lambda x: x * 2 if x.size(0) < 65 else x), []
    for n in SIZES:
        x = torch.randn(n, 4)
        contender.mark_dynamic(x, 0, min=2, max=64)
        found.append(compiled(x))
    return found


@row.program(automatic=1)
def marked_range_decides(contender: Contender) -> list[Any]:
    compiled, found = contender.compile(lambda x: x * 2 if x.size(0) > 2 else x - 1), []
    for n in SIZES:
        x = torch.randn(n, 4)
        contender.mark_dynamic(x, 0, min=4, max=100)
        found.append(compiled(x))
    return found


@row.program(automatic=1)
def marked_equal_sizes(contender: Contender) -> list[Any]:
    compiled, found = contender.compile(lambda x, y: x.sum() + y.sum()), []
    for n, m in ((6, 6), (8, 5), (5, 9), (7, 7)):
        x, y = torch.randn(n, 2), torch.randn(m, 2)
        contender.mark_dynamic(x, 0)
        contender.mark_dynamic(y, 0)
        found.append(compiled(x, y))
    return found


@row.program(automatic=1, dynamic=1)
def violated_by_a_view(contender: Contender) -> list[Any]:
    compiled = contender.compile(lambda x: x.view(5, 4) + 1)
    x = torch.randn(5, 4)
    contender.mark_dynamic(x, 0)
    return [contender.raises(lambda: compiled(x)), contender.compile(lambda y: y + 1)(torch.randn(3))]


@row.program(automatic=1, dynamic=1)
def violated_by_an_addition(contender: Contender) -> list[Any]:
    other = torch.nn.Parameter(torch.randn(5, 4))  # of constant sizes, with dynamic=True too
    compiled = contender.compile(lambda x: x + other)
    x = torch.randn(5, 4)
    contender.mark_dynamic(x, 0)
    return [contender.raises(lambda: compiled(x)), contender.compile(lambda y: y + 1)(torch.randn(3))]


@row.program(automatic=1, dynamic=1)
def violated_by_a_branch(contender: Contender) -> list[Any]:
    compiled = contender.compile(lambda x: x + 1 if x.size(0) == 5 else x)
    x = torch.randn(5, 4)
    contender.mark_dynamic(x, 0)
    return [contender.raises(lambda: compiled(x)), contender.compile(lambda y: y + 1)(torch.randn(3))]


@row.program(automatic=2, dynamic=2, why="specialised: the mark says maybe")
def maybe_marked_specialised(contender: Contender) -> list[Any]:
    compiled, found = contender.compile(lambda x: x.view(x.size(0), 4) + (1 if x.size(0) == 5 else 2)), []
    for n in SIZES:
        x = torch.randn(n, 4)
        contender.maybe_mark_dynamic(x, 0)
        found.append(compiled(x))
    return found


@row.program(automatic=1)
def maybe_marked_stays_dynamic(contender: Contender) -> list[Any]:
    compiled, found = contender.compile(lambda x: x * 2 + 1), []
    for n in SIZES:
        x = torch.randn(n, 4)
        contender.maybe_mark_dynamic(x, 0)
        found.append(compiled(x))
    return found


@row.program(automatic=4, dynamic=4, why="every size is its own")
def marked_static(contender: Contender) -> list[Any]:
    compiled, found = contender.compile(lambda x: x * 2), []
    for n in SIZES:
        x = torch.randn(n, 4)
        contender.mark_static(x, 0)
        found.append(compiled(x))
    return found


@row.program(automatic=2)
def marked_static_other_dim(contender: Contender) -> list[Any]:
    compiled, found = contender.compile(lambda x: x.sum(0)), []
    for n in SIZES:
        x = torch.randn(n, 4)
        contender.mark_static(x, 1)
        found.append(compiled(x))
    return found


@row.program(automatic=1)
def marked_unbacked(contender: Contender) -> list[Any]:
    compiled, found = contender.compile(lambda x: x * 2 + 1), []
    for n in (5, 1, 0, 12):
        x = torch.randn(n, 4)
        contender.mark_unbacked(x, 0)
        found.append(compiled(x))
    return found


@row.program(automatic=1)
def marked_unbacked_product(contender: Contender) -> list[Any]:
    weight = torch.randn(4, 3)
    compiled, found = contender.compile(lambda x: (x @ weight).relu()), []
    for n in (5, 1, 7, 12):
        x = torch.randn(n, 4)
        contender.mark_unbacked(x, 0)
        found.append(compiled(x))
    return found


@row.program(automatic=1, dynamic=1)
def unbacked_refuses_a_branch(contender: Contender) -> list[Any]:
    compiled = contender.compile(lambda x: x + 1 if x.size(0) > 3 else x.double())
    x = torch.randn(5, 4)
    contender.mark_unbacked(x, 0)
    return [contender.raises(lambda: compiled(x)), contender.compile(lambda y: y + 1)(torch.randn(3))]


@row.program(automatic=1)
def marks_and_gradients(contender: Contender) -> list[Any]:
    weight = torch.randn(4, 3, requires_grad=True)
    compiled, found = contender.compile(lambda x: (x @ weight).tanh().sum()), []
    for n in SIZES:
        x = torch.randn(n, 4)
        contender.mark_dynamic(x, 0)
        compiled(x).backward()
        found.append(weight.grad.clone())
    return found
