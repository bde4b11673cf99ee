"""The smallest model of each timm family by parameters. `python -m benchmarks.architectures.timm_models` writes the list anew."""

from __future__ import annotations

from pathlib import Path

LIST = Path(__file__).with_name("timm_models.txt")


def smallest_models() -> list[str]:
    """Names of timm models, one a family (a module of timm.models)."""
    return LIST.read_text().split()


def find_smallest() -> list[str]:
    """Build every registered model without storage and keep the one with the fewest parameters of each family."""
    import timm
    import torch

    chosen = []
    for family in timm.list_modules():
        sizes = {}
        for name in timm.list_models(module=family):
            try:
                with torch.device("meta"):
                    model = timm.create_model(name, pretrained=False)
            except Exception as error:  # what needs more than a name or an optional library has no place in the list
                print(f"{name}: left out: {type(error).__name__}: {error}")
                continue
            sizes[name] = sum(p.numel() for p in model.parameters())
        if sizes:
            chosen.append(min(sizes, key=lambda n: (sizes[n], n)))
    return sorted(chosen)


if __name__ == "__main__":
    LIST.write_text("".join(f"{name}\n" for name in find_smallest()))
