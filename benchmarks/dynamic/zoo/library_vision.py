"""transformers' models of images in tiny configurations."""

from __future__ import annotations

import random
from typing import Any

from benchmarks.dynamic.zoo.library_text import STILL, TEXT, library
from benchmarks.dynamic.zoo.model import image, length, model, words

BODY = {k: v for k, v in TEXT.items() if k not in ("vocab_size", "max_position_embeddings")}


def vit() -> Any:
    t = library()
    return t.ViTForImageClassification(t.ViTConfig(**BODY, **STILL, image_size=16, patch_size=4))


def vit_arguments(draws: random.Random) -> dict[str, Any]:
    return {"pixel_values": image(draws, 4, (1, 6)), "interpolate_pos_encoding": True}


def swin() -> Any:
    t = library()
    config = t.SwinConfig(
        image_size=16, patch_size=2, embed_dim=8, depths=[1, 1], num_heads=[2, 2], window_size=2, drop_path_rate=0.0
    )
    return t.SwinForImageClassification(config)


def convnext() -> Any:
    t = library()
    return t.ConvNextForImageClassification(t.ConvNextConfig(hidden_sizes=[4, 8, 8, 8], depths=[1, 1, 1, 1]))


def clip() -> Any:
    t = library()
    special = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    vision = {**BODY, "image_size": 16, "patch_size": 4}
    return t.CLIPModel(t.CLIPConfig(text_config={**TEXT, **special}, vision_config=vision, projection_dim=8))


def clip_arguments(draws: random.Random) -> dict[str, Any]:
    pixels = image(draws, 4, (1, 6))
    texts = words(draws, draws.randint(1, 5), length(draws))
    return {"pixel_values": pixels, "input_ids": texts, "interpolate_pos_encoding": True}


def yolos() -> Any:
    t = library()
    config = t.YolosConfig(**BODY, **STILL, image_size=[16, 24], patch_size=4, num_detection_tokens=5)
    return t.YolosForObjectDetection(config)


def pixels(draws: random.Random) -> dict[str, Any]:
    return {"pixel_values": image(draws, 4, (2, 6))}


def large(draws: random.Random) -> dict[str, Any]:
    return {"pixel_values": image(draws, 32, (1, 4))}


def swin_way(arguments: dict[str, Any]) -> str:
    """Of the second stage, on a patch for every four pixels: a side as short as a window has the layer's window set anew; what is
    padded at the right, or else (`or` looks no further) at the bottom, is cut off again. The first stage is even and larger."""
    height, width = (side // 4 for side in arguments["pixel_values"].shape[2:])
    padded = "right" if width % 2 else "bottom" if height % 2 else "nowhere"
    return f"{'one' if min(height, width) <= 2 else 'more'} across, padded {padded}"


for make, drawn in {vit: vit_arguments, swin: pixels, convnext: large, clip: clip_arguments, yolos: pixels}.items():
    model(f"zoo_{make.__name__}", make, drawn, needs="transformers", way=swin_way if make is swin else None)
