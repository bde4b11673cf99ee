"""Which of torch's operators the program has given kernels to."""

from __future__ import annotations

from torch.library import _scoped_library

from symshapes import python_kernels


def test_of_torch_s_operators_those_that_python_code_gives_kernels_to() -> None:
    before = python_kernels()
    assert not {"frac", "relu", "special_erfcx"} & set(before), "torch's own kernels of `frac` compute nothing"
    with _scoped_library("aten", "IMPL") as ours, _scoped_library("another", "FRAGMENT") as theirs:
        ours.impl("special_erfcx.out", lambda x, *, out: out, "PrivateUse1")
        ours.impl("special_erfcx", lambda x: x, "CUDA")
        theirs.define("relu(Tensor x) -> Tensor")
        theirs.impl("relu", lambda x: x, "CPU")
        now = python_kernels()
        assert set(now) - set(before) == {"special_erfcx"}, "not what is of other libraries"
        assert set(now["special_erfcx"]) == {("special_erfcx.out", "PrivateUse1"), ("special_erfcx", "CUDA")}
    assert python_kernels() == before
