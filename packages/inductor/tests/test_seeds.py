"""Seeds of draws in kernels, told by where a generator stands."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from inductor import seeds

HERE = torch.device("cpu", 0)


class Standing:
    """A generator that says where it stands."""

    def __init__(self) -> None:
        self.seed, self.offset = 3, 0

    def initial_seed(self) -> int:
        return self.seed

    def get_offset(self) -> int:
        return self.offset

    def set_offset(self, offset: int) -> None:
        assert offset % 4 == 0
        self.offset = offset


@pytest.fixture
def standing(monkeypatch: pytest.MonkeyPatch) -> Standing:
    generator = Standing()
    module = SimpleNamespace(is_current_stream_capturing=lambda: False, default_generators=[generator])
    monkeypatch.setattr(seeds, "_module", lambda kind: module)
    monkeypatch.setattr(seeds, "current_raw_stream", lambda index: 0)
    return generator


def test_the_same_state_gives_the_same_seeds(standing: Standing) -> None:
    first = [seeds.drawn_seeds(3, HERE).tolist() for _ in range(3 * seeds.ROWS)]
    assert len({seed for row in first for seed in row}) == 9 * seeds.ROWS
    assert standing.offset == 12 * seeds.ROWS
    standing.offset = 4 * (seeds.ROWS + 1)
    assert seeds.drawn_seeds(3, HERE).tolist() == first[seeds.ROWS + 1]
    standing.offset = 0
    assert seeds.drawn_seeds(2, HERE).tolist() != first[0][:2]  # of another graph
    standing.seed, standing.offset = 4, 0
    assert seeds.drawn_seeds(3, HERE).tolist() not in first


def test_a_backward_may_keep_seeds_that_inference_made(standing: Standing) -> None:
    with torch.inference_mode():
        first = seeds.drawn_seeds(1, HERE)
    standing.offset = 0
    again = seeds.drawn_seeds(1, HERE)
    assert torch.equal(first, again) and not again.is_inference()


def test_large_and_negative_seeds(standing: Standing) -> None:
    found = []
    for standing.seed in (-1, (1 << 64) - 1, 1 << 63, 0):
        standing.offset = 0
        found.append(seeds.drawn_seeds(1, HERE).item())
    assert found[0] == found[1]  # as generators take them
    assert len(set(found)) == 3
