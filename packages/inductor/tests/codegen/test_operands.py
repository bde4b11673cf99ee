"""What an ATen call gets: tensors with the strides that eager's would have, also where nothing else tells them apart."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from inductor_tracing import trace

from inductor import ReferenceBackend, compile_graph


@torch.library.custom_op("inductor_operands::layout_of", mutates_args=())
def layout_of(x: torch.Tensor) -> torch.Tensor:
    """Strides, and how far the first element is from an address that 16 divides."""
    return torch.tensor([*x.stride(), x.data_ptr() % 16])


@layout_of.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty(x.dim() + 1, dtype=torch.int64)


Function = Callable[[torch.Tensor], torch.Tensor]
OPERANDS: dict[str, Function] = {
    "one head": lambda x: (x + 1).view(2, 10, 1, 5).transpose(1, 2),
    "one head of three": lambda x: (x + 1).chunk(5, -1)[1].view(2, 10, 1, 1).transpose(1, 2),
    "a part": lambda x: (x * 2)[:, :, 1:4],
    "one batch": lambda x: (x[:1] * 2).view(1, 10, 5, 1).permute(0, 3, 1, 2),
    "a padded mask": lambda x: F.pad(x.exp(), (0, 3))[..., :5],
    "a padded mask, expanded": lambda x: F.pad(x.exp(), (0, 3))[..., :5][:, None].expand(2, 3, 10, 5),
    "an expanded computation": lambda x: (x[:, :, :1] + 1).expand(2, 10, 7),
    "an expanded computation of one": lambda x: x.sum().exp().expand(4, 4),
    "an expanded input": lambda x: x[:, None].expand(2, 3, 10, 5),
    "turned": lambda x: (x + 1).permute(2, 0, 1),
    "channels last, one channel": lambda x: (x + 1).view(2, 1, 10, 5).contiguous(memory_format=torch.channels_last),
    "channels last": lambda x: (x + 1).view(2, 5, 2, 5).contiguous(memory_format=torch.channels_last) * 2,
    "of one column": lambda x: (x + 1)[:, :, 2:3],
    "unsqueezed": lambda x: (x + 1).transpose(0, 1).unsqueeze(-1),
}


@pytest.mark.parametrize("name", OPERANDS)
def test_operands_have_eagers_strides(name: str) -> None:
    make = OPERANDS[name]
    x = torch.randn(2, 10, 5)
    op = torch.ops.inductor_operands.layout_of.default
    graph, expected = trace(lambda x: op(make(x)), x)
    compiled = compile_graph(graph, [x], backends={"cpu": ReferenceBackend()})
    assert torch.equal(compiled([x])[0], expected[0])
