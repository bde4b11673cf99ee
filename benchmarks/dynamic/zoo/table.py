"""`python -m benchmarks --suite dynamic-models`: each model's compiles in inference and training, ours beside the peer's."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from benchmarks.dynamic.cell import Cell
from benchmarks.dynamic.contender import CONTENDERS
from benchmarks.dynamic.zoo.model import FAMILIES, model_of


def by_model(cells: Sequence[Cell]) -> Table:
    """A line a model and form: how often it was compiled by each contender, and what else became of it."""
    out = Table(title="compiles over twenty random sizes (what is not said otherwise is right)")
    for heading in ("model", "form", *(f"{c}: {family}" for c in CONTENDERS for family in FAMILIES)):
        out.add_column(heading, overflow="fold")
    found = {(model_of(cell.row), cell.form, cell.contender, cell.family): cell for cell in cells}
    for name, form in dict.fromkeys((name, form) for name, form, _, _ in found):
        texts = [_text(found.get((name, form, c, family))) for c in CONTENDERS for family in FAMILIES]
        out.add_row(name, form, *texts)
    return out


def _text(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    return str(cell.compiles) if cell.status in ("right", "over") else f"{cell.status} ({cell.compiles})"
