"""Programs with autograd inside, compiled by aotgrad and by inductor."""

from __future__ import annotations

import autograd_custom  # noqa: F401  (registers its programs)
import autograd_inside
import pytest

import meta


@pytest.mark.parametrize("name", autograd_inside.PROGRAMS)
def test_program_ahead_of_time(name: str) -> None:
    fullgraph = name not in autograd_inside.BREAKS
    autograd_inside.check(name, lambda fn: meta.compile(fn, backend="aot_eager", fullgraph=fullgraph))


@pytest.mark.parametrize(
    "name", ["loss_and_its_value", "second_derivatives", "step_replaces_data", "kept_graph_leaves", "several"]
)
def test_program_in_kernels(name: str) -> None:
    autograd_inside.check(name, lambda fn: meta.compile(fn, fullgraph=True))
