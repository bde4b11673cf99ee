"""Operators that are defined as programs need them, by threads that need the same one at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from aotgrad import formulas, functional_forms, kernels_of_others


@pytest.mark.parametrize(
    ("module", "define"),
    [
        (kernels_of_others, lambda: kernels_of_others._as_registered(torch.ops.aten.special_erfcx.default, ())),
        (formulas, lambda: formulas.gradient_operator(torch.ops.aten.special_erfcx.default, (True,))),
        (
            functional_forms,
            lambda: functional_forms.forms_of(
                torch.ops.aten.special_erfcx.default, functional_forms.Layout(((0, False),), (False,)), ()
            ),
        ),
    ],
    ids=["kernels", "gradients", "forms"],
)
def test_it_is_defined_once(module: Any, define: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow:
        """Leaves other threads the time to come in between."""

        def __init__(self, library: torch.library.Library) -> None:
            self.library = library

        def __getattr__(self, name: str) -> Any:
            threading.Event().wait(0.05)
            return getattr(self.library, name)

    monkeypatch.setattr(module, "_library", Slow(module._library))
    with ThreadPoolExecutor(4) as pool:
        first, *others = [each.result() for each in [pool.submit(define) for _ in range(4)]]
    assert all(other is first for other in others)
