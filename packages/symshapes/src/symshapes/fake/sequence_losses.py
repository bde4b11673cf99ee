"""`ctc_loss` with lengths that are numbers: torch's C++ makes a tensor of them by itself, which no fake tensor has a part in.

In: calls on fakes. Out: the mean as the C++ computes it, of the losses of all sequences.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


def _averaging(original: Callable[..., Tensor], mean: Any, none: Any) -> Callable[..., Tensor]:
    """One of torch's two functions, by what it calls a mean, and what the losses themselves."""

    def ctc_loss(
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Any,
        target_lengths: Any,
        blank: int = 0,
        reduction: Any = mean,
        zero_infinity: bool = False,
    ) -> Tensor:
        given = log_probs, targets, input_lengths, target_lengths, blank
        if reduction != mean or not isinstance(target_lengths, (list, tuple)):
            return original(*given, reduction, zero_infinity)
        losses = original(*given, none, zero_infinity)
        lengths = torch.tensor(list(map(int, target_lengths)), dtype=losses.dtype, device=losses.device)
        return (losses / lengths.clamp_min(1)).mean()

    return ctc_loss


ROWS: dict[Any, Callable[..., Tensor]] = {
    F.ctc_loss: _averaging(F.ctc_loss, "mean", "none"),
    torch.ctc_loss: _averaging(torch.ctc_loss, 1, 0),
}
