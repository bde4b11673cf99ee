"""`one_hot` with as many classes as data says: torch's C++ takes an int.

In: calls on fakes. Out: each element compared with all classes; what eager refuses when it looks at the elements is checked by who runs it.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from symshapes.expr.symbols import is_unbacked
from symshapes.rules.layout import demand


def one_hot(input: Tensor, num_classes: Any = -1) -> Tensor:
    """`torch.nn.functional.one_hot`, which does not ask a fake for classes out of range: who runs it does."""
    input.fake_mode.risks += 1  # type: ignore[attr-defined]
    if isinstance(num_classes, Tensor) and not num_classes.dim() and num_classes.dtype is torch.int64:
        num_classes = num_classes.item()
    inferred = type(num_classes) is int and num_classes == -1
    counted = not any(map(is_unbacked, input.shape)) and input.dtype is torch.int64
    if not (inferred or is_unbacked(num_classes)) or not counted or input.numel() == 0:
        found: Tensor = F.one_hot(input, num_classes)
        return found
    if input.device.type == "cpu":
        least = input.min().item()
        demand(least >= 0, lambda: ValueError("Class values must be non-negative."))
    needed: Any = input.max().item() + 1
    count = needed if inferred else torch.sym_max(num_classes, needed)
    if not inferred:
        fits = (num_classes >= needed) | (num_classes == -1)
        demand(fits, lambda: ValueError("Class values must be smaller than num_classes."))
    classes = torch.arange(count, device=input.device)
    # Looked up in the list of all classes, an element that is none is refused on other devices, too.
    known = torch.gather(classes, 0, input.reshape(-1)).reshape(input.shape)
    return (known.unsqueeze(-1) == classes).to(torch.int64)
