"""Positions read from data: what eager refuses is refused with eager's exception type, also where nobody reads the element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import meta

ROWS, COLUMNS, COUNT = 5, 16, 8

torch.manual_seed(0)
TABLE = torch.randn(ROWS, COLUMNS)
SOURCE = torch.randn(COUNT, COLUMNS)
SCORES = torch.randn(COUNT, ROWS)


def wide(index: torch.Tensor) -> torch.Tensor:
    return index[:, None].expand(COUNT, COLUMNS)


Program = Callable[[torch.Tensor], Any]
PROGRAMS: dict[str, Program] = {
    "embedding": lambda i: F.embedding(i, TABLE),
    "embedding, padded": lambda i: F.embedding(i, TABLE, padding_idx=1),
    "embedding, normalised": lambda i: F.layer_norm(F.embedding(i, TABLE) + 1, (COLUMNS,)),
    "embedding, summed": lambda i: F.embedding(i, TABLE).sum(),
    "embedding, a part read": lambda i: F.embedding(i, TABLE)[:2] + 1,
    "embedding, chunks": lambda i: F.embedding(i, TABLE).chunk(4)[0] * 2,
    "embedding, cut": lambda i: F.pad(F.embedding(i, TABLE), (0, 0, 0, -5)),
    "embedding of equal rows": lambda i: F.embedding(i, TABLE[:1].expand(ROWS, COLUMNS)),
    "gather": lambda i: TABLE.gather(0, wide(i)),
    "gather of equal numbers": lambda i: torch.full((ROWS, COLUMNS), 2.0).gather(0, wide(i)),
    "index_select": lambda i: TABLE.index_select(0, i),
    "index_select, columns": lambda i: TABLE.t().contiguous().index_select(1, i),
    "getitem": lambda i: TABLE[i],
    "getitem, twice": lambda i: TABLE[i, i.abs() % COLUMNS],
    "getitem, a part read": lambda i: TABLE[i][:2] * 2,
    "take": lambda i: TABLE.view(-1)[:ROWS].take(i),
    "take_along_dim": lambda i: torch.take_along_dim(TABLE, wide(i), 0),
    "scatter": lambda i: torch.zeros(ROWS, COLUMNS).scatter(0, wide(i), SOURCE),
    "scatter of a number": lambda i: torch.zeros(ROWS, COLUMNS).scatter(0, wide(i), 2.0),
    "scatter_add": lambda i: torch.zeros(ROWS, COLUMNS).scatter_add(0, wide(i), SOURCE),
    "scatter_add_": lambda i: torch.zeros(ROWS, COLUMNS).scatter_add_(0, wide(i), SOURCE),
    "scatter_reduce": lambda i: torch.zeros(ROWS, COLUMNS).scatter_reduce(0, wide(i), SOURCE, "amax"),
    "index_add": lambda i: torch.zeros(ROWS, COLUMNS).index_add(0, i, SOURCE),
    "index_add, columns": lambda i: torch.zeros(COLUMNS, ROWS).index_add(1, i, SOURCE.t(), alpha=2),
    "index_copy": lambda i: torch.zeros(ROWS, COLUMNS).index_copy(0, i, SOURCE),
    "index_fill": lambda i: torch.zeros(ROWS, COLUMNS).index_fill(0, i, 1.0),
    "index_put": lambda i: torch.zeros(ROWS, COLUMNS).index_put((i,), SOURCE),
    "index_put, added": lambda i: torch.zeros(ROWS, COLUMNS).index_put((i,), SOURCE, accumulate=True),
    "one_hot": lambda i: F.one_hot(i, ROWS),
    "cross_entropy": lambda i: F.cross_entropy(SCORES, i),
    "cross_entropy, weighted": lambda i: F.cross_entropy(SCORES, i, weight=TABLE[:, 0].exp()),
    "cross_entropy, not reduced": lambda i: F.cross_entropy(SCORES, i, reduction="none"),
    "cross_entropy, ignoring": lambda i: F.cross_entropy(SCORES, i, ignore_index=-100),
    "cross_entropy, images": lambda i: F.cross_entropy(SCORES.t()[None, :, :, None], i[None, :, None]),
    "nll_loss of one": lambda i: F.nll_loss(torch.ones(ROWS), i[COUNT // 2]),
    "embedding_bag": lambda i: F.embedding_bag(i.view(2, 4), TABLE),
}
REPEATED_WRITES_DIFFER = {"scatter", "index_copy", "index_put"}
"""Of several writes to one place eager keeps any."""


def positions(bad: int | None) -> torch.Tensor:
    index = torch.arange(COUNT) % ROWS
    if bad is not None:
        index[COUNT // 2] = bad
    return index


def outcome(function: Program, index: torch.Tensor) -> Any:
    try:
        return function(index)
    except (IndexError, RuntimeError) as error:
        return type(error)


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_eager_refuses_is_refused(name: str) -> None:
    program = PROGRAMS[name]
    compiled = meta.compile(program)
    for bad in (None, -1, -ROWS - 1, ROWS, 10**12, -(2**63), 2**63 - 1, None):
        index = positions(bad)
        expected, found = outcome(program, index), outcome(compiled, index)
        if isinstance(expected, torch.Tensor) and isinstance(found, torch.Tensor):
            if name not in REPEATED_WRITES_DIFFER:
                torch.testing.assert_close(found, expected)
        else:
            assert found == expected, f"{bad}: {found}, eager {expected}"


def test_training_refuses_too() -> None:
    table = torch.randn(ROWS, COLUMNS, requires_grad=True)
    compiled = meta.compile(lambda i: F.embedding(i, table).tanh().sum())
    with pytest.raises(IndexError):
        compiled(positions(-1)).backward()
    compiled(positions(None)).backward()
    eager = table.detach().clone().requires_grad_()
    F.embedding(positions(None), eager).tanh().sum().backward()
    torch.testing.assert_close(table.grad, eager.grad)


@pytest.mark.parametrize("place", [0, 70_001, 149_999])
def test_a_bad_position_among_many_threads(place: int) -> None:
    compiled = meta.compile(lambda i: TABLE.gather(0, i.view(-1, COLUMNS)).exp())
    index = torch.arange(150_000 // COLUMNS * COLUMNS) % ROWS
    threads = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        compiled(index)
        index[place % len(index)] = ROWS
        with pytest.raises(RuntimeError):
            compiled(index)
        index[place % len(index)] = 0
        torch.testing.assert_close(compiled(index), TABLE.gather(0, index.view(-1, COLUMNS)).exp())
    finally:
        torch.set_num_threads(threads)


def test_an_empty_index_of_fewer_dimensions() -> None:
    nothing = torch.empty(0, dtype=torch.int64)
    assert meta.compile(lambda i: TABLE.gather(0, i) + 1)(nothing).shape == (0,)


DTYPES: dict[str, Program] = {
    name: PROGRAMS[name]
    for name in (
        "gather",
        "index_select",
        "scatter",
        "scatter_add",
        "scatter_reduce",
        "index_add",
        "index_copy",
        "take",
    )
} | {
    "index_reduce": lambda i: torch.zeros(ROWS, COLUMNS).index_reduce(0, i, SOURCE, "amax"),
    "index_put of another dtype": lambda i: torch.zeros(ROWS, COLUMNS).index_put((i.long(),), SOURCE.double()),
}


def assigned(index: torch.Tensor) -> torch.Tensor:
    table = torch.zeros(ROWS, COLUMNS)
    table[index.long()] = SOURCE.double()
    return table


DTYPES["assignment of another dtype"] = assigned
DTYPES["index_copy_"] = lambda i: torch.zeros(ROWS, COLUMNS).index_copy_(0, i, SOURCE)


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("dtype", [torch.int16, torch.uint8, torch.bool, torch.int32])
@pytest.mark.parametrize("name", DTYPES)
def test_dtypes_that_eager_refuses(name: str, dtype: torch.dtype) -> None:
    if (name, dtype) == ("scatter_add", torch.int32):
        pytest.skip(
            "by the strides of the index eager chooses between a kernel that takes int32 and one that refuses it"
        )
    program, index = DTYPES[name], positions(None).to(dtype)
    expected, found = outcome(program, index), outcome(meta.compile(program), index)
    if isinstance(expected, torch.Tensor):
        assert isinstance(found, torch.Tensor)
    else:
        assert found == expected


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_training_of_bags(mode: str) -> None:
    index = positions(None).view(2, 4)
    for padding in (None, 0):
        tables = [TABLE.clone().requires_grad_() for _ in range(2)]

        def bags(table: torch.Tensor, padding: int | None = padding) -> torch.Tensor:
            return F.embedding_bag(index, table, mode=mode, padding_idx=padding)

        for function, table in zip((bags, meta.compile(bags)), tables, strict=True):
            (function(table) ** 2).sum().backward()
        torch.testing.assert_close(tables[1].grad, tables[0].grad)


def test_a_table_without_rows() -> None:
    program: Program = lambda i: F.embedding(i, TABLE[:0])  # noqa: E731
    assert outcome(program, positions(None)) is RuntimeError
    assert outcome(meta.compile(program), positions(None)) is RuntimeError


UNLIKE: dict[str, Callable[..., Any]] = {
    "scatter": lambda x, i, y: x.scatter(0, i, y),
    "scatter_add": lambda x, i, y: x.scatter_add(0, i, y),
    "scatter_reduce": lambda x, i, y: x.scatter_reduce(0, i, y, "amax"),
    "scatter_reduce, means": lambda x, i, y: x.scatter_reduce(0, i, y, "mean"),
    "index_add": lambda x, i, y: x.index_add(0, i, y),
    "index_copy": lambda x, i, y: x.index_copy(0, i, y),
    "index_reduce": lambda x, i, y: x.index_reduce(0, i, y, "amax"),
    "index_put": lambda x, i, y: x.index_put((i,), y, accumulate=True),
    "put": lambda x, i, y: x.put(i, y),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_writes_of_another_dtype_are_refused(name: str) -> None:
    index = torch.zeros(3, dtype=torch.int64)
    for x, y in ((torch.ones(3), index), (index, torch.ones(3)), (index, index.int())):
        with pytest.raises(RuntimeError):
            UNLIKE[name](x, index, y)
        with pytest.raises(RuntimeError):
            meta.compile(UNLIKE[name])(x, index, y)


def test_positions_of_other_rank_are_refused() -> None:
    index, column = torch.zeros(3, dtype=torch.int64), torch.ones(3, 1)
    programs: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (lambda x, i: x.gather(0, i), (column, index)),
        (lambda x, i: x.gather(0, i), (column[0], index[:, None])),
        (lambda x, i, y: x.scatter_add(0, i, y), (column, index, column)),
        (lambda x, i, y: x.scatter_add(0, i, y), (column[:, 0], index, column)),
        (lambda x, i, y: x.scatter_reduce(0, i, y, "mean"), (column[:, 0], index[:1], torch.ones(2, 4))),
    ]
    for program, given in programs:
        for one in (program, meta.compile(program)):
            with pytest.raises(RuntimeError, match="same number of dimensions"):
                one(*given)


def test_bools_have_no_hypotenuse() -> None:
    with pytest.raises(NotImplementedError):
        meta.compile(torch.hypot)(torch.ones(3) > 0, torch.ones(3) > 0)


@pytest.mark.parametrize("dynamic", [None, True])
def test_positions_wrap_around_a_dimension(dynamic: bool | None) -> None:
    """Those of `take_along_dim` do, any number of times."""
    compiled = meta.compile(lambda x, i: torch.take_along_dim(x, i, 1), dynamic=dynamic)
    for columns in (5, 7):
        x, index = torch.randn(3, columns), torch.arange(-12, 12).view(1, -1)
        torch.testing.assert_close(compiled(x, index), torch.take_along_dim(x, index, 1))
