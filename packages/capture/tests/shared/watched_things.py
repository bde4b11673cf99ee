"""Objects of a program that watches are about, and guard programs over them."""

from capture.guards import build_tree, guard_program
from capture.sources import (
    Local,
)

X = Local("x")


def holder(x):
    pass


def program(*guards, inputs=()):
    return guard_program(build_tree(guards), holder.__code__, inputs)


class Base:
    pass


class Thing(Base):
    pass


class Slotted:
    __slots__ = ("part",)


def function(a, b=1, *, c=2):
    return a + b + c


def closing(value):
    def inner():
        return value

    return inner


def other():
    return 0


def thing(**parts):
    made = Thing()
    made.__dict__.update(parts)
    return made
