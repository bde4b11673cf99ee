"""Texts of classes made from `str`, that come from outside: `torch.__version__`, and those of the program's."""

from __future__ import annotations

import re

import torch
from packaging import version

import capture


class Label(str):
    """A text with a method and an attribute."""

    def shout(self):
        return self.upper() + "!"


def asked_of_the_version(x):
    found = re.match(r"(\d+)\.(\d+)", torch.__version__)
    known = [torch.__version__ >= "2.5", torch.__version__ >= (99, 1), torch.__version__ != "2.3"]
    parsed = version.parse(torch.__version__) >= version.parse("2.5")
    parts = torch.__version__.split(".")[0], "+" in torch.__version__, torch.__version__[:3], f"{torch.__version__}"
    return x * 2, found.groups(), known, parsed, parts, torch.__version__, type(torch.__version__)


def test_the_version_of_torch_is_known():
    compiled = capture.compile(asked_of_the_version, fullgraph=True)
    x = torch.ones(3)
    wanted, found = asked_of_the_version(x), compiled(x)
    assert torch.equal(wanted[0], found[0])
    assert wanted[1:] == found[1:]


def test_a_text_is_guarded():
    def fn(x, label):
        return (
            x * len(label),
            label.shout(),
            label == "ab",
            label + "c",
            {label: 1}.get("ab"),
            getattr(label, "tag", None),
        )

    compiled = capture.compile(fn, fullgraph=True)
    x, other = torch.ones(3), Label("ab")
    other.tag = 5
    for label in (Label("ab"), Label("ab"), Label("abc"), other):
        wanted, found = fn(x, label), compiled(x, label)
        assert torch.equal(wanted[0], found[0])
        assert wanted[1:] == found[1:]
    assert compiled.session.report.graph_count == 3


def test_what_a_class_says_of_its_texts_holds():
    class Loud(str):
        def __len__(self):
            return 7

        def __eq__(self, other):
            return True

        def __str__(self):
            return "loud"

        __hash__ = str.__hash__

    def fn(x, text):
        return x * len(text), text == "nothing", str(text), f"{text}", text.upper()

    compiled = capture.compile(fn)
    x = torch.ones(3)
    for text in (Loud("ab"), Loud("abc")):
        wanted, found = fn(x, text), compiled(x, text)
        assert torch.equal(wanted[0], found[0])
        assert wanted[1:] == found[1:]
