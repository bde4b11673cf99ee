"""Marks on the dimensions of tensors: how they are set, read back and refused."""

import pytest
import torch

from symshapes import DimMark, DimPolicy, mark_dynamic, mark_static, mark_unbacked, policy_of


def test_marks_are_read_back():
    x = torch.empty(8, 4, 3)
    assert policy_of(x) == {}
    mark_dynamic(x, 0, min=2, max=64)
    mark_static(x, -1)
    mark_unbacked(x, 1)
    assert policy_of(x) == {
        0: DimMark(DimPolicy.DYNAMIC, 2, 64),
        1: DimMark(DimPolicy.UNBACKED),
        2: DimMark(DimPolicy.STATIC),
    }
    mark_static(x)
    assert set(policy_of(x).values()) == {DimMark(DimPolicy.STATIC)}
    assert policy_of(torch.empty(8)) == {}


def test_wrong_marks():
    x = torch.empty(8, 4)
    with pytest.raises(IndexError):
        mark_static(x, 2)
    with pytest.raises(IndexError):
        mark_dynamic(x, 5)
    with pytest.raises(ValueError, match="size 8"):
        mark_dynamic(x, 0, max=4)
    with pytest.raises(ValueError, match="empty range"):
        mark_dynamic(x, 0, min=9, max=4)
