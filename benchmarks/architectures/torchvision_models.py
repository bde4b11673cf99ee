"""The smallest model of each torchvision family by parameters. `python -m benchmarks.architectures.torchvision_models` writes the list anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

LIST = Path(__file__).with_name("torchvision_models.txt")


def smallest_models() -> list[str]:
    """Names of torchvision models, one a family (a module of torchvision.models)."""
    return LIST.read_text().split()


def build(name: str) -> torch.nn.Module:
    """The model without weights."""
    import inspect

    from torchvision import models

    taken = inspect.signature(models.get_model_builder(name)).parameters
    return models.get_model(name, **{weights: None for weights in ("weights", "weights_backbone") if weights in taken})


class Listed(torch.nn.Module):
    """A detector, which takes a list of images of any sizes."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *images: torch.Tensor) -> Any:
        return self.model(list(images))


def ways(model: torch.nn.Module) -> Iterator[tuple[torch.nn.Module, dict[str, torch.Tensor]]]:
    """What a family may take, in the order of how much it is to compute: images, videos, pairs of images, lists of images."""
    for size in (64, 128, 224, 299):
        yield model, {"x": torch.randn(2, 3, size, size)}
    for size in (64, 112, 224):
        yield model, {"x": torch.randn(1, 3, 16, size, size)}
    for size in (128, 256):
        yield model, {"first": torch.rand(1, 3, size, size), "second": torch.rand(1, 3, size, size)}
    yield Listed(model), {"first": torch.rand(3, 128, 96), "second": torch.rand(3, 112, 128)}


def find_smallest() -> list[str]:
    """Build every registered model without storage and keep the one with the fewest parameters of each family."""
    from torchvision import models

    sizes: dict[str, list[tuple[int, str]]] = {}
    for name in models.list_models():
        family = models.get_model_builder(name).__module__
        if ".quantization" in family:  # its builders quantise, which is a matter of another library
            continue
        try:
            with torch.device("meta"):
                model = build(name)
        except NotImplementedError:  # it computes its sizes with tensors
            model = build(name)
        sizes.setdefault(family, []).append((sum(p.numel() for p in model.parameters()), name))
    return sorted(min(found)[1] for found in sizes.values())


if __name__ == "__main__":
    LIST.write_text("".join(f"{name}\n" for name in find_smallest()))
