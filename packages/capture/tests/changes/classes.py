"""Classes along the method resolution order."""

from __future__ import annotations

from torch import nn

from .table import between, changed, family, matrix, removed, vector

program = family("classes")


def family_of_three():
    class Base:
        k = 2

        def scale(self, x):
            return x * 2

        @property
        def p(self):
            return 2

    class Middle(Base):
        pass

    class Leaf(Middle):
        pass

    return Base, Middle, Leaf


@program
def constant_on_base(call):
    Base, _Middle, Leaf = family_of_three()
    leaf = Leaf()
    call.across(changed(Base, "k", 3), lambda x: x * leaf.k, vector())


@program
def constant_added_on_middle(call):
    _Base, Middle, Leaf = family_of_three()
    leaf = Leaf()
    call.across([changed(Middle, "k", 3), changed(Leaf, "k", 5)], lambda x: x * leaf.k, vector())


@program
def constant_added_on_instance(call):
    leaf = family_of_three()[2]()
    call.across(changed(leaf, "k", 3), lambda x: x * leaf.k, vector())


@program
def constant_read_from_class(call):
    Base, Middle, Leaf = family_of_three()
    call.across([changed(Base, "k", 3), changed(Middle, "k", 4), changed(Leaf, "k", 5)], lambda x: x * Leaf.k, vector())


@program
def constant_removed(call):
    Base, _Middle, Leaf = family_of_three()
    leaf = Leaf()
    call.across(removed(Base, "k"), lambda x: x * leaf.k, vector())


@program
def constant_becomes_property(call):
    _Base, _Middle, Leaf = family_of_three()
    leaf = Leaf()
    call.across(changed(Leaf, "k", property(lambda self: 7)), lambda x: x * leaf.k, vector())


@program
def instance_value_shadowed_by_property(call):
    _Base, Middle, Leaf = family_of_three()
    leaf = Leaf()
    leaf.q = 3
    call.across(changed(Middle, "q", property(lambda self: 7)), lambda x: x * leaf.q, vector())


@program
def method_on_base(call):
    Base, _Middle, Leaf = family_of_three()
    leaf = Leaf()
    call.across(changed(Base, "scale", lambda self, x: x * 3), lambda x: leaf.scale(x), vector())


@program
def method_added_on_middle_and_leaf(call):
    _Base, Middle, Leaf = family_of_three()
    leaf = Leaf()
    call.across(
        [changed(Middle, "scale", lambda self, x: x * 3), changed(Leaf, "scale", lambda self, x: x * 4)],
        lambda x: leaf.scale(x),
        vector(),
    )


@program
def method_on_instance(call):
    leaf = family_of_three()[2]()
    call.across(changed(leaf, "scale", lambda x: x * 4), lambda x: leaf.scale(x), vector())


@program
def method_becomes_static(call):
    Base, _Middle, Leaf = family_of_three()
    leaf = Leaf()
    call.across(changed(Base, "scale", staticmethod(lambda x: x * 4)), lambda x: leaf.scale(x), vector())


@program
def method_becomes_class_method(call):
    Base, _Middle, Leaf = family_of_three()
    leaf = Leaf()
    call.across(changed(Base, "scale", classmethod(lambda cls, x: x * cls.k)), lambda x: leaf.scale(x), vector())


@program
def property_on_base(call):
    Base, _Middle, Leaf = family_of_three()
    leaf = Leaf()
    call.across([changed(Base, "p", property(lambda self: 3)), changed(Leaf, "p", 4)], lambda x: x * leaf.p, vector())


@program
def property_written_through(call):
    class Box:
        value = 0

        @property
        def p(self):
            return self.value

        @p.setter
        def p(self, value):
            self.value = value * 2

    box = Box()
    call.state = box

    def f(x):
        box.p = 3
        return x * box.p

    other = property(Box.p.fget, lambda self, value: setattr(self, "value", value * 5))
    call.across(changed(Box, "p", other), f, vector())


@program
def attribute_asked_for(call):
    Base, Middle, Leaf = family_of_three()
    leaf = Leaf()

    def f(x):
        return x * (2 if hasattr(leaf, "extra") else 3) + getattr(leaf, "more", 1)

    call.across(
        [changed(Base, "extra", 1), changed(Leaf, "more", 4), changed(leaf, "extra", 1), changed(Middle, "more", 6)],
        f,
        vector(),
    )


@program
def missing_attribute_raised(call):
    _Base, Middle, Leaf = family_of_three()
    leaf = Leaf()

    def f(x):
        try:
            return x * leaf.absent
        except AttributeError as error:
            return x, str(error)

    call.across([changed(Middle, "absent", 3), changed(leaf, "absent", 5)], f, vector())


@program
def bases_replaced(call):
    class One:
        def scale(self, x):
            return x * 2

    class Two:
        def scale(self, x):
            return x * 3

    class Leaf(One):
        pass

    leaf = Leaf()
    call.across(changed(Leaf, "__bases__", (Two,)), lambda x: leaf.scale(x), vector())


@program
def bases_of_base_replaced(call):
    class One:
        k = 2

    class Two:
        k = 3

    class Middle(One):
        pass

    class Leaf(Middle):
        pass

    leaf = Leaf()
    call.across(changed(Middle, "__bases__", (Two,)), lambda x: x * leaf.k, vector())


@program
def super_target(call):
    class Base:
        def scale(self, x):
            return x * 2

    class Middle(Base):
        pass

    class Leaf(Middle):
        def scale(self, x):
            return super().scale(x) + 1

    leaf = Leaf()
    call.across(
        [changed(Base, "scale", lambda self, x: x * 3), changed(Middle, "scale", lambda self, x: x * 5)],
        lambda x: leaf.scale(x),
        vector(),
    )


@program
def super_cooperative(call):
    class Base:
        def scale(self, x):
            return x * 2

    class Left(Base):
        def scale(self, x):
            return super().scale(x) + 1

    class Right(Base):
        pass

    class Leaf(Left, Right):
        pass

    leaf = Leaf()
    call.across(changed(Right, "scale", lambda self, x: x * 50), lambda x: leaf.scale(x), vector())


@program
def super_attribute(call):
    class Base:
        k = 2

    class Leaf(Base):
        k = 7

        def scale(self, x):
            return x * super().k

    leaf = Leaf()
    call.across(changed(Base, "k", 3), lambda x: leaf.scale(x), vector())


@program
def forward_added_on_subclass(call):
    class A(nn.Module):
        def forward(self, x):
            return x * 2

    class B(A):
        pass

    class C(B):
        pass

    module = C()
    call.across(
        [changed(B, "forward", lambda self, x: x * 3), changed(C, "forward", lambda self, x: x * 4)],
        nn.Sequential(module),
        matrix(),
    )


@program
def class_constant_of_module(call):
    class A(nn.Module):
        k = 2

        def forward(self, x):
            return x * self.k

    class B(A):
        pass

    module = B()
    call.across([changed(B, "k", 5), changed(A, "k", 6), changed(module, "k", 7)], module, matrix())


@program
def library_class_subclassed_late(call):
    layer = nn.Tanh()
    model = nn.Sequential(layer)
    Louder = type("Louder", (nn.Tanh,), {"forward": lambda self, x: x * 5})
    call.across(changed(layer, "__class__", Louder), model, matrix())


@program
def constructor_changed(call):
    class Thing:
        def __new__(cls, k):
            return super().__new__(cls)

        def __init__(self, k):
            self.k = k

    def f(x):
        return x * Thing(2).k

    def other(self, k):
        self.k = k + 10

    class Made:
        k = 77

    call.across([changed(Thing, "__init__", other), changed(Thing, "__new__", lambda cls, k: Made())], f, vector())


@program
def init_added_on_middle(call):
    _Base, Middle, Leaf = family_of_three()

    def init(self):
        self.k = 9

    call.across(changed(Middle, "__init__", init), lambda x: x * Leaf().k, vector())


@program
def static_method_replaced(call):
    class Thing:
        @staticmethod
        def scale(x):
            return x * 2

    call.across(changed(Thing, "scale", staticmethod(lambda x: x * 3)), lambda x: Thing.scale(x), vector())


@program
def class_method_inherited(call):
    class Base:
        k = 2

        @classmethod
        def scale(cls, x):
            return x * cls.k

    class Leaf(Base):
        pass

    leaf = Leaf()
    call.across([changed(Leaf, "k", 3), changed(leaf, "k", 50)], lambda x: leaf.scale(x) + Leaf.scale(x), vector())


@program
def class_method_wrapped_function_code(call):
    class Thing:
        @classmethod
        def scale(cls, x):
            return x * 2

    def other(cls, x):
        return x * 6

    call.across(changed(Thing.scale.__func__, "__code__", other.__code__), lambda x: Thing.scale(x), vector())


@program
def mixin_added_to_argument_class(call):
    class Box:
        k = 2

    def f(x, box):
        return x * box.k

    call(f, vector(), Box())
    Box.k = 3
    call(f, vector(), Box())
    with between(lambda: setattr(Box, "k", 4), lambda: setattr(Box, "k", 2)):
        call(f, vector(), Box())
    call(f, vector(), Box())
