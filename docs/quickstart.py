"""Compiles transformers' BertModel from its configuration and prints what came of it. Run by `nox -s quickstart`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from transformers import BertConfig, BertModel

import meta


def milliseconds(contenders: dict[str, Callable[[], object]], rounds: int = 15) -> dict[str, float]:
    """Median time of one call of each, rounds interleaved."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            times[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    torch.manual_seed(0)
    model = BertModel(
        BertConfig(num_hidden_layers=4, hidden_size=256, num_attention_heads=4, intermediate_size=1024)
    ).eval()
    tokens = torch.randint(0, 30000, (4, 128))

    with torch.no_grad():
        start = time.perf_counter()
        compiled = meta.compile(model)
        found = compiled(tokens)
        first = time.perf_counter() - start
        expected = model(tokens)
        times = milliseconds({"eager": lambda: model(tokens), "compiled": lambda: compiled(tokens)})
        difference = max((a - b).abs().max().item() for a, b in zip(found.to_tuple(), expected.to_tuple(), strict=True))
        explanation = meta.explain(model, tokens)

    print(f"BertModel, {sum(p.numel() for p in model.parameters()) / 1e6:.1f} M parameters, batch 4 of 128 tokens")
    print(f"  eager               {times['eager']:8.1f} ms")
    print(
        f"  compiled            {times['compiled']:8.1f} ms   ({times['eager'] / times['compiled']:.2f} times as fast)"
    )
    print(f"  first call          {first:8.1f} s    (compilation)")
    print(f"  largest difference  {difference:8.1e}")
    print(explanation.summary())


if __name__ == "__main__":
    main()
