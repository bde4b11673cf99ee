"""Inputs for a model, from its forward signature and its configuration: candidates to be tried in turn."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch

BATCH, LENGTH, DECODED, FRAMES = 2, 16, 8, 2

Inputs = dict[str, torch.Tensor]


def candidates(model: torch.nn.Module) -> Iterator[Inputs]:
    """Keyword arguments for `model`, the most likely first; drawn from torch's generator.

    One set holds the main input (or inputs, for models of several senses) and whatever else has no default.
    """
    parameters = inspect.signature(model.forward).parameters
    config = model.config
    required = [
        n for n, p in parameters.items() if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    main = getattr(model, "main_input_name", "input_ids")
    mains = [main] if isinstance(main, str) else list(main)
    extra = [n for n in ("decoder_input_ids", "bbox") if n in parameters]
    senses = [
        n for n in ("input_ids", "pixel_values", "input_features", "input_values", "audio_values") if n in parameters
    ]
    sets: list[list[str]] = []
    for names in (
        [*mains, *required, *extra],
        [*senses, *required, *extra],
        *([s, *required, *extra] for s in senses),
        required,
    ):
        wanted = list(dict.fromkeys(n for n in names if n in parameters))
        if wanted and wanted not in sets:
            sets.append(wanted)
    for wanted in sets:
        makers = [MAKERS.get(name, _unknown)(name, config) for name in wanted]
        # All names take their first shape together, then their second, ...: the shapes of one convention come together.
        for i in range(max(len(shapes) for shapes in makers)):
            made = {name: shapes[min(i, len(shapes) - 1)] for name, shapes in zip(wanted, makers, strict=True)}
            inputs = {name: value() for name, value in made.items()}
            if "input_ids" in inputs and "attention_mask" in parameters and inputs["input_ids"].dim() == 2:
                inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
            yield inputs


Make = Callable[[], torch.Tensor]


def parts(config: Any) -> list[Any]:
    """The configuration and those nested in it."""
    found = [config]
    for value in vars(config).values():
        if hasattr(value, "to_diff_dict"):
            found += parts(value)
    return found


def resized(inputs: Inputs, length: int) -> Inputs:
    """The inputs with as many tokens, those that there are or those over again; masks and positions of tokens follow."""

    def fitted(value: torch.Tensor) -> torch.Tensor:
        if value.is_floating_point() or value.dim() < 2 or value.size(1) != LENGTH:
            return value
        return torch.cat([value] * (length // LENGTH + 1), 1)[:, :length].contiguous()

    return {name: fitted(value) for name, value in inputs.items()}


def _field(config: Any, *names: str, default: Any = None, kind: type | tuple[type, ...] = int) -> Any:
    """The first such field of the configuration or, nested in it, of another."""
    for part in parts(config):
        for name in names:
            value = getattr(part, name, None)
            if isinstance(value, kind) and not isinstance(value, bool):
                return value
    return default


def _tokens(length: int) -> Callable[[str, Any], list[Make]]:
    def makers(name: str, config: Any) -> list[Make]:
        high = _field(config, "vocab_size", default=100)
        high = min(high, 200)
        plain = lambda: torch.randint(3, max(4, high - 8), (BATCH, length))  # noqa: E731
        books = _field(config, "num_codebooks", "num_quantizers", "num_channels")
        return [plain] if books is None else [plain, lambda: torch.randint(3, high - 8, (BATCH, length, books))]

    return makers


def _images(name: str, config: Any) -> list[Make]:
    size = _field(config, "image_size", "img_size", "input_size", "crop_size", default=64, kind=(int, list, tuple))
    height, width = (size, size) if isinstance(size, int) else tuple(size)[-2:] if len(size) > 1 else (size[0],) * 2
    channels = _field(config, "num_channels", "in_channels", "in_chans", "n_channels", default=3)
    frames = _field(config, "num_frames", "frames_per_clip", default=FRAMES)
    patch = _field(config, "patch_size", default=16)
    still = lambda: torch.randn(BATCH, channels, height, width)  # noqa: E731
    video = lambda: torch.randn(BATCH, frames, channels, height, width)  # noqa: E731
    flat = lambda: torch.randn(BATCH, 16, channels * patch * patch)  # noqa: E731
    return [video, still] if "video" in name else [still, video, flat]


def _features(name: str, config: Any) -> list[Make]:
    bins = _field(config, "num_mel_bins", "feature_size", "input_feat_per_channel", "input_dim", "n_mels", default=80)
    length = _field(config, "max_source_positions", "max_length", default=64)
    shapes = [(BATCH, bins, 2 * length), (BATCH, 64, bins), (BATCH, bins, length), (BATCH, 1, 64, bins)]
    return [lambda shape=shape: torch.randn(*shape) for shape in shapes]


def _waves(name: str, config: Any) -> list[Make]:
    bins = _field(config, "num_mel_bins", default=80)
    length = _field(config, "max_length", default=64)
    shapes = [(BATCH, 4000), (BATCH, 1, 4000), (BATCH, length, bins)]
    return [lambda shape=shape: torch.randn(*shape) for shape in shapes]


def _boxes(name: str, config: Any) -> list[Make]:
    def make() -> torch.Tensor:
        corners = torch.randint(0, 100, (BATCH, LENGTH, 2))
        return torch.cat([corners, corners + torch.randint(1, 100, (BATCH, LENGTH, 2))], -1)

    return [make]


def _series(length: Callable[[Any], int], *, features: bool) -> Callable[[str, Any], list[Make]]:
    def makers(name: str, config: Any) -> list[Make]:
        steps = length(config)
        depth = _field(config, "num_time_features", "num_input_channels", "input_size", default=1)
        wide = lambda: torch.randn(BATCH, steps, max(1, depth))  # noqa: E731
        return [wide] if features else [lambda: torch.randn(BATCH, steps), wide]

    return makers


def _past(config: Any) -> int:
    lags = _field(config, "lags_sequence", default=[0], kind=list)
    return int(_field(config, "context_length", default=32)) + max(lags)


def _future(config: Any) -> int:
    return int(_field(config, "prediction_length", default=8))


def _ones(steps: Callable[[Any], int]) -> Callable[[str, Any], list[Make]]:
    return lambda name, config: [lambda: torch.ones(BATCH, steps(config))]


def _unknown(name: str, config: Any) -> list[Make]:
    width = _field(config, "hidden_size", "d_model", default=64)
    if name.endswith(("_ids", "_values_ids", "tokens")):
        return _tokens(LENGTH)(name, config)
    if name.endswith("mask"):
        return [lambda: torch.ones(BATCH, LENGTH, dtype=torch.long)]
    return [lambda: torch.randn(BATCH, LENGTH, width)]


MAKERS: dict[str, Callable[[str, Any], list[Make]]] = {
    "input_ids": _tokens(LENGTH),
    "decoder_input_ids": _tokens(DECODED),
    "pixel_values": _images,
    "pixel_values_videos": _images,
    "input_features": _features,
    "input_values": _waves,
    "audio_values": _waves,
    "bbox": _boxes,
    "past_values": _series(_past, features=False),
    "past_time_features": _series(_past, features=True),
    "past_observed_mask": _ones(_past),
    "future_values": _series(_future, features=False),
    "future_time_features": _series(_future, features=True),
}
"""Input name: the shapes it may have, the most likely first."""
