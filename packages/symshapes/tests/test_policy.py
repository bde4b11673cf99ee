"""Marks on the dimensions of tensors: how they are set, read back and refused."""

import pytest
import torch

from symshapes import (
    Dim,
    DimMark,
    DimPolicy,
    mark_dynamic,
    mark_static,
    mark_unbacked,
    maybe_mark_dynamic,
    policy_of,
)


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


def test_a_marked_tensor_is_saved_and_loaded(tmp_path):
    x = torch.empty(8, 4)
    mark_dynamic(x, 0, Dim("batch", 2, 64))
    torch.save({"x": x}, tmp_path / "x.pt")
    y = torch.load(tmp_path / "x.pt", weights_only=True)["x"]
    assert policy_of(y) == policy_of(x) == {0: DimMark(DimPolicy.DYNAMIC, 2, 64, "batch")}


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
    with pytest.raises(ValueError, match="size 8"):
        mark_unbacked(x, 0, Dim("batch", max=4))
    with pytest.raises(ValueError, match="empty"):
        Dim("")
    with pytest.raises(ValueError, match="empty range"):
        Dim("batch", 3, 2)
    with pytest.raises(TypeError, match="the range is the Dim's"):
        mark_dynamic(x, 0, Dim("batch"), min=2)
    assert policy_of(x) == {}


def test_names_and_weak_marks():
    x = torch.empty(8, 4)
    mark_dynamic(x, [0], Dim("batch", 2, 64))
    maybe_mark_dynamic(x, -1)
    assert policy_of(x) == {
        0: DimMark(DimPolicy.DYNAMIC, 2, 64, "batch"),
        1: DimMark(DimPolicy.DYNAMIC, binding=False),
    }


@pytest.mark.parametrize("own", [False, True])
def test_marks_of_torch_mean_what_they_mean_there(own):
    """Set by torch's own functions, so that this fails when one of its attributes gets another name."""
    from torch._dynamo import decorators as torchs  # noqa: TID251  (what is read is theirs)

    x = torch.empty(2, 3, 4, 5, 6)
    torchs.mark_static(x, 0)
    torchs.mark_dynamic(x, 1, min=2, max=9)
    torchs.maybe_mark_dynamic(x, 2)
    torchs.mark_unbacked(x, 3)
    torchs.mark_dynamic(x, 4)
    torchs.mark_static(x, 4)  # of two, the one for more sizes
    if own:
        mark_static(x, 1)
    assert policy_of(x) == {
        0: DimMark(DimPolicy.STATIC),
        1: DimMark(DimPolicy.STATIC) if own else DimMark(DimPolicy.DYNAMIC, 2, 9),
        2: DimMark(DimPolicy.DYNAMIC, binding=False),
        3: DimMark(DimPolicy.UNBACKED, binding=False),
        4: DimMark(DimPolicy.DYNAMIC),
    }
