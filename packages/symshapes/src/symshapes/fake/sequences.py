"""`pad_sequence` of rows of which only the run can tell how many each sequence has: torch's C++ takes ints.

In: calls on fakes. Out: each sequence filled up to the longest one, and all of them stacked. What eager would refuse or convert goes eager's own way.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from symshapes import _torch
from symshapes.expr.symbols import is_unbacked
from symshapes.facts.layout import same_size

_ORIGINAL = _torch.image_function("pad_sequence")


def _are_alike(sequences: Sequence[Tensor]) -> bool:
    """Whether they differ in length alone."""
    first = sequences[0]
    return all(
        one.dim() == first.dim() > 0
        and (one.dtype, one.device) == (first.dtype, first.device)
        and all(map(same_size, one.shape[1:], first.shape[1:]))
        for one in sequences
    )


def pad_sequence(
    sequences: Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """What `torch.nn.utils.rnn.pad_sequence` calls."""
    known = padding_side in ("left", "right") and isinstance(padding_value, (int, float))
    if not known or not any(is_unbacked(one.shape[0]) for one in sequences if one.dim()) or not _are_alike(sequences):
        return _ORIGINAL(sequences, batch_first, padding_value, padding_side)
    longest: Any = functools.reduce(torch.sym_max, [one.shape[0] for one in sequences])
    rows = []
    for one in sequences:
        missing = longest - one.shape[0]
        ends = [missing, 0] if padding_side == "left" else [0, missing]
        rows.append(F.pad(one, [*[0, 0] * (one.dim() - 1), *ends], value=padding_value))
    return torch.stack(rows, 0 if batch_first else 1)


ROWS: dict[Any, Callable[..., Any]] = {_ORIGINAL: pad_sequence}
