"""Read-only views of dictionaries from outside: within the graph, and read again where what they show has changed."""

from __future__ import annotations

import collections
import inspect
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture

TABLE: dict[str, Any] = {}
VIEW = types.MappingProxyType(TABLE)
CHANGES: tuple[Callable[[], Any], ...] = (
    lambda: None,
    lambda: TABLE.update(c=4),
    lambda: TABLE.update(a=9),
    lambda: TABLE.pop("b"),
    lambda: TABLE.update(b=1),
)


def is_refused(change: Callable[[Any], Any]) -> str:
    try:
        change(VIEW)
    except (TypeError, AttributeError) as error:
        return str(error)
    return ""


def write(view: Any) -> None:
    view["a"] = 3


def delete(view: Any) -> None:
    del view["a"]


def merge(view: Any) -> None:
    view |= {"z": 3}


READS: dict[str, Callable[[], Any]] = {
    "absent": lambda: "c" in VIEW,
    "present": lambda: "a" in VIEW,
    "keys": lambda: list(VIEW),
    "get": lambda: (VIEW.get("a"), VIEW.get("c")),
    "item": lambda: VIEW["a"],
    "values": lambda: list(VIEW.values()),
    "items": lambda: [*VIEW.items()],
    "length": lambda: (len(VIEW), bool(VIEW)),
    "merged": lambda: (VIEW | {"z": 1}, {"z": 1} | VIEW, {**VIEW}, dict(VIEW, z=3)),
    "copied": lambda: (type(VIEW.copy()), VIEW.copy()),
    "equal": lambda: (VIEW == {"a": 1, "b": 2}, VIEW != {}),
    "in order": lambda: (sorted(VIEW), list(reversed(VIEW))),
    "written": lambda: [is_refused(change) for change in (write, delete, merge, lambda view: view.update(a=1))],
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_view(read: Callable[[], Any]) -> None:
    def f(x: torch.Tensor) -> Any:
        return x + 1, read()

    TABLE.clear()
    TABLE.update(a=1, b=2)
    compiled, x = capture.compile(f, fullgraph=True), torch.ones(2)
    for change in CHANGES:
        change()
        for _ in range(2):
            assert compiled(x)[1] == f(x)[1]


def test_signature() -> None:
    """As libraries filter what they hand on: by the parameters of a signature that they keep."""
    signature = inspect.signature(lambda preds, target, *more: None)

    def f(x: torch.Tensor, **given: Any) -> Any:
        known = signature.parameters
        taken = {k: v for k, v in given.items() if k in known and known[k].kind is not inspect.Parameter.VAR_POSITIONAL}
        return x + 1, taken, [p.name for p in known.values()]

    compiled, x = capture.compile(f, fullgraph=True), torch.ones(2)
    assert compiled(x, preds=1, other=2)[1:] == f(x, preds=1, other=2)[1:]


def test_beside_a_dictionary_that_changes() -> None:
    """Whether the view shows what the frame changes is guarded; where it does, the graph breaks."""
    apart: dict[str, Any] = {"a": 1}

    def f(x: torch.Tensor, table: dict[str, Any]) -> Any:
        table["a"] = 5
        return x + 1, VIEW["a"]

    TABLE.clear()
    TABLE.update(a=1)
    compiled, x = capture.compile(f), torch.ones(2)
    assert compiled(x, apart)[1] == 1
    assert compiled(x, apart)[1] == 1
    report = capture.report(compiled)
    assert not report.breaks
    assert not report.skipped
    assert compiled(x, TABLE)[1] == 5
    TABLE["a"] = 1
    assert compiled(x, TABLE)[1] == 5


class Answering(dict[str, Any]):
    """Has more to say than what is in it."""

    def __missing__(self, key: str) -> str:
        return key

    def get(self, key: str, default: Any = None) -> Any:
        return "got"


def test_of_mappings_that_answer_in_their_own_way() -> None:
    """A view asks what it shows; another one, of a plain dictionary, does not answer for it."""

    def f(x: torch.Tensor, view: Any) -> Any:
        try:
            found = view["missing"]
        except KeyError as error:
            found = repr(error)
        return x + 1, found, view.get("missing"), len(view)

    compiled, x = capture.compile(f), torch.ones(2)
    shown: tuple[Callable[[], Any], ...] = (
        lambda: {"a": 1},
        lambda: Answering(a=1),
        lambda: collections.defaultdict(int, a=1),
        lambda: collections.OrderedDict(a=1),
        lambda: types.MappingProxyType(Answering(a=1)),
        lambda: collections.ChainMap({"a": 1}, {"b": 2}),
        lambda: {"a": 1},
    )
    for make in shown:
        expected = f(x, types.MappingProxyType(make()))
        assert compiled(x, types.MappingProxyType(make()))[1:] == expected[1:]


class Keeper:
    def __init__(self, table: dict[str, Any]) -> None:
        self.table = table
        self.keys, self.values, self.items = table.keys(), table.values(), table.items()


def kept_views(x: torch.Tensor, keeper: Keeper) -> Any:
    before = len(keeper.keys), "c" in keeper.keys, sum(keeper.values)
    keeper.table["c"] = 5
    again = keeper.keys
    return x * len(keeper.keys), before, list(keeper.items), sorted(keeper.keys & {"a", "c"}), again is keeper.keys


@pytest.mark.parametrize("kind", [dict, collections.OrderedDict])
def test_views_that_somebody_keeps(kind: Any) -> None:
    compiled = capture.compile(kept_views, fullgraph=True)
    for start in ({"a": 1, "b": 2}, {"b": 3}):
        plain, made = Keeper(kind(start)), Keeper(kind(start))
        for _ in range(2):
            (x, *rest), (y, *others) = compiled(torch.ones(2), made), kept_views(torch.ones(2), plain)
            assert torch.equal(x, y) and rest == others
        assert made.table == plain.table
    # Another dictionary than the one beside it.
    apart = Keeper(kind({"a": 1, "b": 2}))
    apart.table = kind({"z": 1})
    x, before, items, *_ = compiled(torch.ones(2), apart)
    assert x.tolist() == [2, 2] and before == (2, False, 3) and items == [("a", 1), ("b", 2)]


def test_a_kept_view_of_a_dictionary_with_its_own_ways() -> None:
    class Odd(dict):
        def __len__(self) -> int:
            return 77

    def fn(x: torch.Tensor, keys: Any) -> Any:
        return x * len(keys), list(keys)

    given = torch.ones(2), Odd(a=1).keys()
    (x, keys), (y, others) = capture.compile(fn)(*given), fn(*given)
    assert torch.equal(x, y) and keys == others
