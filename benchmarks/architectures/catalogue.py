"""The architectures by name: `transformers:LlamaModel`, `timm:resnet10t`, `torchvision:alexnet`; how each becomes a small model with inputs.

A name that ends in `/default`, or in the name of one of transformers' ways to go through experts (`/eager`, `/batched_mm`, `/grouped_mm`), is that of
a mixture of experts, which is to have some.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.architectures import timm_models, torchvision_models
from benchmarks.architectures.inputs import Inputs, candidates, parts
from benchmarks.architectures.shrink import levels, shrunk

LARGEST = 80_000_000
"""Parameters; a configuration that stays larger is not built."""


class NotBuilt(Exception):
    """No tiny configuration with made-up inputs runs in eager mode; says what the first failed with."""


@dataclass(frozen=True)
class Subject:
    """A model in eval mode, float32, on the CPU, and keyword arguments that it runs on."""

    model: torch.nn.Module
    inputs: Inputs
    positional: bool
    """The inputs go in by position."""


def names() -> list[str]:
    """All architectures of the libraries installed."""
    from transformers.models.auto import modeling_auto

    found: set[str] = set()
    for value in modeling_auto.MODEL_MAPPING_NAMES.values():
        found.update(value if isinstance(value, (tuple, list)) else [value])
    return [
        *(f"transformers:{n}" for n in sorted(found)),
        *(f"timm:{n}" for n in timm_models.smallest_models()),
        *(f"torchvision:{n}" for n in torchvision_models.smallest_models()),
    ]


def mixtures(ways: Sequence[str] = ("default",)) -> list[str]:
    """The architectures of transformers that say in their configurations how many experts there are, with each of these ways.

    What a name says is not asked: `build` finds out whether the model has experts, and whether they can be gone through so.
    """
    from transformers import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    found: set[str] = set()
    for kind, names_of_kind in MODEL_MAPPING_NAMES.items():
        try:
            config = CONFIG_MAPPING[kind]()
        except Exception:  # a class that needs an optional library, or a configuration that needs other ones
            continue
        if any("expert" in field and not field.startswith("_") for part in parts(config) for field in vars(part)):
            found.update([names_of_kind] if isinstance(names_of_kind, str) else names_of_kind)
    return [f"transformers:{name}/{way}" for name in sorted(found) for way in ways]


def build(name: str) -> Subject:
    """The architecture called `name`, tiny, having run once in eager mode. Raises `NotBuilt`."""
    library, _, key = name.partition(":")
    return {"transformers": _transformers, "timm": _timm, "torchvision": _torchvision}[library](key)


def _timm(name: str) -> Subject:
    import timm

    torch.manual_seed(0)
    model = timm.create_model(name, pretrained=False)
    channels, height, width = model.default_cfg.get("input_size", (3, 224, 224))
    # Most families take any size, and small images are as hard to compile as large ones.
    problems = []
    for size in (64, 96, 128, height):
        for sized in ({}, {"img_size": size}):
            try:
                torch.manual_seed(0)
                model = quiet(timm.create_model(name, pretrained=False, **sized))
                inputs = {"x": torch.randn(2, channels, size, size if size != height else width)}
                run_once(model, inputs, positional=True)
                return Subject(model, inputs, positional=True)
            except Exception as error:  # a size that this family does not take
                problems.append(f"{type(error).__name__}: {error}")
    raise NotBuilt(problems[0])


def _torchvision(name: str) -> Subject:
    torch.manual_seed(0)
    problems = []
    for model, inputs in torchvision_models.ways(quiet(torchvision_models.build(name))):
        try:
            run_once(model, inputs, positional=True)
            return Subject(model, inputs, positional=True)
        except Exception as error:  # what this family does not take
            problems.append(f"{type(error).__name__}: {error}")
    raise NotBuilt(problems[0])


def counts_experts(model: torch.nn.Module) -> bool:
    """Whether some module of it says that it has several experts, or has parameters for what it calls its experts."""
    return any(
        "expert" in field and isinstance(value, int) and value > 1
        for module in model.modules()
        for field, value in vars(module).items()
    ) or any("experts" in name.split(".") for name, _ in model.named_parameters())


def ways_lead(model: torch.nn.Module) -> bool:
    """Whether the model's experts are gone through as it is told: their `forward` asks the interface that has the ways."""
    codes = (getattr(type(module).forward, "__code__", None) for module in model.modules())
    return any(code is not None and "experts_interface" in code.co_freevars for code in codes)


def _transformers(name: str) -> Subject:
    import transformers

    name, _, way = name.partition("/")

    cls = getattr(transformers, name, None)
    config_class = getattr(cls, "config_class", None)
    if config_class is None:
        raise NotBuilt("no such class, or one without a configuration")
    problems: list[str] = []
    for level in levels():
        try:
            torch.manual_seed(0)
            config = shrunk(config_class, level, experts=bool(way))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                count = _parameters(cls, config)
                if count > LARGEST:
                    problems.append(f"level {level}: {count} parameters")
                    continue
                torch.manual_seed(0)
                model = quiet(cls(config).float())
        except Exception as error:  # the next level changes less
            problems.append(f"level {level}: {type(error).__name__}: {error}")
            continue
        if way and not counts_experts(model):
            problems.append(f"level {level}: no experts")
            continue
        if way not in ("", "default"):
            if not ways_lead(model):
                raise NotBuilt("its experts are gone through in one way")
            model.set_experts_implementation(way)
        torch.manual_seed(1)
        tried = candidates(model)
        while True:
            try:
                inputs = next(tried, None)
                if inputs is None:
                    break
                run_once(model, inputs, positional=False)
                return Subject(model, inputs, positional=False)
            except Exception as error:  # the next inputs may fit
                problems.append(f"level {level}: {type(error).__name__}: {error}")
    raise NotBuilt("; ".join(dict.fromkeys(p.splitlines()[0][:200] for p in problems))[:1500])


def _parameters(cls: Any, config: Any) -> int:
    """How many parameters the model would have; 0 where it cannot be built without storage.

    Raises what the constructor raises with storage too, where that would first fill the memory.
    """
    try:
        with torch.device("meta"):
            return sum(p.numel() for p in cls(config).parameters())
    except (RuntimeError, TypeError):  # some constructors look at values, or hand them to NumPy
        return 0


def run_once(model: torch.nn.Module, inputs: Inputs, *, positional: bool) -> Any:
    with torch.no_grad():
        return model(*inputs.values()) if positional else model(**inputs)


def quiet(model: torch.nn.Module) -> torch.nn.Module:
    """In eval mode and without random numbers: a compiler may draw them in another order."""
    for part in model.modules():
        for field, value in list(vars(part).items()):
            if isinstance(value, float) and ("drop" in field or (field == "p" and "Drop" in type(part).__name__)):
                setattr(part, field, 0.0)
    return model.eval()
