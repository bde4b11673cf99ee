"""Hooks for audits, which some libraries have, are not called for what a capture looks up."""

import collections
import subprocess
import sys

import pytest

from capture import _native

_COUNTS = """
import collections, sys
import torch, capture

told = collections.Counter()
class Deep(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(20))
    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x

model, x = Deep(), torch.randn(2, 4)
capture.compile(model, fullgraph=True)(x)
capture.reset()
sys.addaudithook(lambda event, args: told.update([event]))
assert torch.equal(capture.compile(model, fullgraph=True)(x), model(x))
print(told["builtins.id"], told["object.__getattr__"])
"""


def _plain(x):
    return x


def test_an_address_is_what_id_gives():
    for value in (None, 1, "text", [], _plain, type, object()):
        assert _native.address(value) == id(value)


def test_the_code_of_a_function():
    assert _native.function_code(_plain) is _plain.__code__
    for other in (len, _plain.__code__, object()):
        with pytest.raises(TypeError, match="a function, not"):
            _native.function_code(other)


def test_a_capture_raises_few_audit_events():
    found = subprocess.run([sys.executable, "-c", _COUNTS], capture_output=True, text=True, check=True)
    addresses, attributes = map(int, found.stdout.split())
    assert addresses < 400  # once 2,300
    assert attributes < 400


def test_neither_is_audited():
    code = (
        "import sys; from capture import _native; told = []; f = lambda: 1; sys.addaudithook(lambda *a: told.append(a));"
        "_native.address(told); _native.function_code(f); print(len(told))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert collections.Counter(found.stdout.split()) == {"0": 1}
