"""The oracle of the shape rules: every op that a program runs on real tensors, beside what its rule foretells."""

import functools
from collections import Counter
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from symshapes import DataDependentError, FakeMode
from symshapes.facts import facts_of
from symshapes.rules.registry import RULES

# Results of which only the library that computes them knows the size.
OPAQUE = {"aten.mkldnn_rnn_layer.default": {3}, "aten._cudnn_rnn.default": {3}, "aten.cudnn_batch_norm.default": {3}}


class Oracle(TorchDispatchMode):
    """Runs each op and compares size, strides, dtype, device, offset, lazy bits and aliasing of its results.

    `wrong` lists the differences; `missing` counts ops without a rule. With `lenient` an op that fails in eager
    may have a rule that answers.
    """

    def __init__(self, lenient: bool = False) -> None:
        super().__init__()
        self.lenient = lenient
        self.wrong: list[str] = []
        self.missing: Counter[str] = Counter()
        self.checked: Counter[str] = Counter()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = [value for value in tree_flatten((args, kwargs))[0] if isinstance(value, torch.Tensor)]
        if not _has_rule(func):
            self.missing[str(func)] += 1
            return func(*args, **kwargs)
        if any(t.layout is not torch.strided or t.is_nested or t.is_quantized for t in tensors):
            return func(*args, **kwargs)
        self.checked[str(func)] += 1
        mode = FakeMode()
        fakes: dict[int, Any] = {}

        def fake(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            return fakes.setdefault(id(value), mode.from_tensor(value))

        error: Exception | None = None
        foretold: Any = None
        fake_args, fake_kwargs = tree_map(fake, (args, kwargs))
        given = [
            (tuple(v.shape), v.stride(), v.dtype, str(v.device)) if isinstance(v, torch.Tensor) else v
            for v in tree_flatten((args, kwargs))[0]
        ]
        try:
            with torch.no_grad():
                foretold = mode.dispatch(func, fake_args, fake_kwargs)
        except Exception as raised:  # compared with what eager raises
            error = raised
        try:
            real = func(*args, **kwargs)
        except Exception as raised:
            if error is None and not self.lenient:
                self.wrong.append(f"{func}{given}: eager raises {raised!r}")
            raise
        if error is not None:
            if not isinstance(error, DataDependentError):
                self.wrong.append(f"{func}{given}: the rule raises {error!r}")
            return real
        mine = {id(fakes[id(t)].storage_key): at for at, t in reversed(list(enumerate(tensors)))}
        theirs = {t.untyped_storage()._cdata: at for at, t in reversed(list(enumerate(tensors)))}
        ours = _describe(foretold, lambda t: mine.get(id(t.storage_key)))
        eager = _describe(real, lambda t: theirs.get(t.untyped_storage()._cdata))
        for opaque in OPAQUE.get(str(func), ()):
            ours[opaque] = eager[opaque] = None
        if ours != eager:
            self.wrong.append(f"{func}{given}:\n  rule  {ours}\n  eager {eager}")
        return real

    def check(self) -> None:
        """Fail with the first differences, if there are any."""
        assert not self.wrong, "\n".join([f"{len(self.wrong)} differences", *self.wrong[:10]])


@functools.cache
def _has_rule(func: Any) -> bool:
    facts = facts_of(func)
    if func in RULES:
        return True
    return bool(facts.returns_written) and -1 not in facts.returns_written and facts.functional in RULES


def _describe(value: Any, storage: Any) -> Any:
    if isinstance(value, torch.Tensor):
        place = (value.stride(), value.storage_offset()) if value.numel() else None
        bits = (value.is_conj(), value.is_neg())
        return (tuple(value.shape), value.dtype, str(value.device), place, bits, storage(value))
    if isinstance(value, (list, tuple)):
        return [_describe(item, storage) for item in value]
    return value


@pytest.fixture
def oracle() -> Oracle:
    return Oracle()


@pytest.fixture
def lenient_oracle() -> Oracle:
    return Oracle(lenient=True)
