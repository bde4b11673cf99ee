"""A model and the sizes it is called with: two rows, one of outputs and one of gradients, at twenty sizes drawn at random.

In: how the model is made and how its arguments are drawn. Out: rows of the families `FAMILIES`, of at most three compiles each;
where the model's own Python goes several ways by the sizes, as many more as there are other ways among the twenty.
"""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable, Hashable
from typing import Any

import torch

from benchmarks.dynamic.contender import Contender
from benchmarks.dynamic.registry import Family, Row, tensors

CALLS = 20
COMPILES = 3
INFERENCE, TRAINING = "models, inference", "models, training"
FAMILIES = (INFERENCE, TRAINING)

SUFFIX = "_training"

Drawn = Callable[[random.Random], dict[str, Any]]
Way = Callable[[dict[str, Any]], Hashable]
"""Which way a model's own branches go for arguments, in words or numbers: each way is a graph of its own, whoever captures it."""


def model(
    name: str,
    make: Callable[[], Any],
    drawn: Drawn,
    *,
    trains: bool = True,
    needs: str = "torch",
    way: Way | None = None,
) -> None:
    """Register `make()`, called with `drawn(random)` by name: sizes are drawn from its name, so they are the same in every run.

    With `trains`, once more with gradients of all parameters. What `needs` a library that is not there is left out.
    `way` is of a model that branches on sizes; the ways that the twenty sizes go are counted.
    """
    if importlib.util.find_spec(needs) is None:
        return
    ways = ways_of(name, drawn, way)
    Family(INFERENCE).add(_row(name, INFERENCE, _inference(name, make, drawn), ways))
    if trains:
        Family(TRAINING).add(_row(f"{name}{SUFFIX}", TRAINING, _training(name, make, drawn), ways))


def ways_of(name: str, drawn: Drawn, way: Way | None) -> set[Hashable]:
    """The ways that a model goes at the sizes of its rows."""
    if way is None:
        return {None}
    draws = random.Random(name)
    return {way(drawn(draws)) for _ in range(CALLS)}


def model_of(row: str) -> str:
    """The model that a row is of."""
    return row.removesuffix(SUFFIX)


def _row(name: str, family: str, run: Callable[[Contender], list[Any]], ways: set[Hashable]) -> Row:
    compiles = COMPILES + len(ways) - 1
    why = f"the model's own branches go {len(ways)} ways: {sorted(map(str, ways))}" if len(ways) > 1 else ""
    return Row(name, family, run, automatic=compiles, dynamic=compiles, tolerance=1e-3, exact=False, why=why)


def program(name: str, run: Callable[[Contender], list[Any]], *, compiles: int, why: str, needs: str = "torch") -> None:
    """Register a program that calls its model itself."""
    if importlib.util.find_spec(needs) is None:
        return
    row = Row(name, INFERENCE, run, automatic=compiles, dynamic=compiles, tolerance=1e-3, exact=False, why=why)
    Family(INFERENCE).add(row)


def _inference(name: str, make: Callable[[], Any], drawn: Drawn) -> Callable[[Contender], list[Any]]:
    def run(contender: Contender) -> list[Any]:
        made, draws = _made(make), random.Random(name)
        if isinstance(made, torch.nn.Module):
            made.eval()
        compiled = contender.compile(made)
        found = []
        for _ in range(CALLS):
            arguments = drawn(draws)
            with torch.no_grad():
                found.append(tensors(compiled(**arguments)))
        return found

    return run


def _training(name: str, make: Callable[[], Any], drawn: Drawn) -> Callable[[Contender], list[Any]]:
    def run(contender: Contender) -> list[Any]:
        made, draws = _made(make).train(), random.Random(name)
        compiled = contender.compile(made)
        found = []
        for _ in range(CALLS):
            outputs = [t for t in tensors(compiled(**drawn(draws))) if t.requires_grad]
            torch.stack([t.sin().mean() for t in outputs]).sum().backward()
            found.append([p.grad for p in made.parameters()])
            made.zero_grad(set_to_none=True)
        return found

    return run


def _made(make: Callable[[], Any]) -> Any:
    torch.manual_seed(1)
    made = make()
    torch.manual_seed(2)
    return made


def batch(draws: random.Random, least: int = 1) -> int:
    return draws.randint(least, 6)


def length(draws: random.Random, most: int = 24) -> int:
    return draws.randint(1, most)


def words(draws: random.Random, rows: int, columns: int, vocabulary: int = 31) -> torch.Tensor:
    return torch.randint(1, vocabulary, (rows, columns))


def padding(draws: random.Random, rows: int, columns: int) -> torch.Tensor:
    """A mask of ones, with zeros after each row's length, which is one at least."""
    lengths = torch.tensor([draws.randint(1, columns) for _ in range(rows)])
    return (torch.arange(columns) < lengths[:, None]).long()


def image(
    draws: random.Random, patch: int, patches: tuple[int, int], channels: int = 3, least: int = 1
) -> torch.Tensor:
    """A batch of images, each side so many patches, drawn apart."""
    height, width = (patch * draws.randint(*patches) for _ in range(2))
    return torch.randn(batch(draws, least), channels, height, width)
