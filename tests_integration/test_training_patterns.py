"""Every training pattern gives eager's values and gradients, with every backend."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest
import torch

import meta
from tests_integration.training_patterns import PATTERNS, Pattern

_EXPECTED: dict[str, Any] = {}


def _run(pattern: Pattern, wrap: Any) -> Any:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Anomaly Detection has been enabled")
        return pattern(wrap)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", PATTERNS)
def test_pattern(name: str, backend: str) -> None:
    if name not in _EXPECTED:
        _EXPECTED[name] = _run(PATTERNS[name], lambda target: target)
    _same(_run(PATTERNS[name], lambda target: meta.compile(target, backend=backend)), _EXPECTED[name], name)


def _same(found: Any, expected: Any, where: str) -> None:
    if isinstance(expected, torch.Tensor):
        assert found.requires_grad == expected.requires_grad, where
        tolerance = {"rtol": 2e-2, "atol": 2e-2} if "mixed" in where else {"rtol": 1e-4, "atol": 1e-5}
        torch.testing.assert_close(found, expected, **tolerance, msg=lambda text: f"{where}: {text}")
    elif isinstance(expected, dict):
        assert list(found) == list(expected), where
        for key in expected:
            _same(found[key], expected[key], f"{where}.{key}")
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected), where
        for i, (one, other) in enumerate(zip(found, expected, strict=True)):
            _same(one, other, f"{where}[{i}]")
    elif isinstance(expected, float):
        assert math.isclose(found, expected, rel_tol=2e-2 if "mixed" in where else 1e-4, abs_tol=1e-5), where
    else:
        assert found == expected, where
