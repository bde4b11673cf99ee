"""Spectra, differences, blocks, chains of products and Jacobians: one compile serves all sizes, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.func import hessian, jacfwd, jacrev, vmap

import capture
import meta

WINDOW = torch.hann_window(8)
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "block_diag": lambda x: torch.block_diag(x, x[0] * 2, torch.ones(2, 2)) + 1,
    "stft": lambda x: torch.stft(x, n_fft=8, hop_length=4, window=WINDOW, return_complex=True).abs(),
    "stft without padding": lambda x: torch.stft(x[0], n_fft=8, window=WINDOW, return_complex=True, center=False).abs(),
    "multi_dot": lambda x: torch.linalg.multi_dot([x, x.t(), x, torch.ones(x.shape[1], 3)]),
    "gradient": lambda x: torch.gradient(x)[1],
    "gradient of second order": lambda x: torch.gradient(x, spacing=2.0, dim=1, edge_order=2)[0],
    "vmap of jacfwd": lambda x: vmap(jacfwd(lambda r: r.sin() * r.sum()))(x),
    "vmap of jacrev": lambda x: vmap(jacrev(lambda r: r.sin() * r.sum()))(x),
    "jacfwd of two": lambda x: jacfwd(lambda a, b: (a.sin() * b).sum(0), argnums=(0, 1))(x, x * 2)[1],
    "hessian": lambda x: hessian(lambda r: (r.sin() * r.sum()).sum())(x[0]),
}


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_all_sizes(name: str, backend: str) -> None:
    program = PROGRAMS[name]
    compiled = meta.compile(program, backend=backend, dynamic=True, fullgraph=True)
    for size in ((9, 12), (10, 13), (15, 21)):
        x = torch.randn(size, generator=torch.Generator().manual_seed(0)).requires_grad_()
        mine, eagers = compiled(x), program(x)
        torch.testing.assert_close(mine, eagers, rtol=1e-4, atol=1e-4)
        ours, theirs = (torch.autograd.grad(t.square().sum(), x) for t in (mine, eagers))
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)
    assert capture.report(compiled).graph_count == 1
