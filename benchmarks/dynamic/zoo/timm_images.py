"""timm's models, called with batches of images of all sizes that they take."""

from __future__ import annotations

import functools
import random
from typing import Any

from benchmarks.dynamic.zoo.model import image, model


def created(name: str, options: dict[str, Any]) -> Any:
    import timm

    return timm.create_model(name, pretrained=False, num_classes=5, **options)


def pixels(draws: random.Random) -> dict[str, Any]:
    return {"x": image(draws, 32, (1, 4), least=2)}


def patches(draws: random.Random) -> dict[str, Any]:
    return {"x": image(draws, 16, (1, 5))}


PATCHES = {"img_size": 48, "embed_dim": 24, "depth": 2, "dynamic_img_size": True}
for name, drawn, options in (
    ("resnet18", pixels, {"channels": (8, 16, 24, 32)}),
    ("test_efficientnet", pixels, {}),
    ("vit_tiny_patch16_224", patches, PATCHES),
    ("convnext_atto", pixels, {"depths": (1, 1, 2, 1), "dims": (8, 16, 24, 32)}),
    ("mobilenetv3_small_050", pixels, {}),
):
    model(f"zoo_timm_{name}", functools.partial(created, name, options), drawn, needs="timm")
