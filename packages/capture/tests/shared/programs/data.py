"""Programs that take numbers and sizes out of tensors' data, and say what they know of them."""

from __future__ import annotations

import math

import torch

from .registry import program


@program
def scaled_by_a_sum(x):
    return x * x.sum().item()


@program
def numbers_of_all_elements(x):
    return [v * 2 for v in x[0].tolist()], sum(x[1].tolist())


@program
def whole_numbers_unpacked(x):
    a, b, c, d = x[0].long().tolist()
    return x + a + b * c - d


@program
def nested_lists_of_elements(x):
    return [len(row) for row in x.tolist()], {i: -v for i, v in enumerate(x[0].tolist())}


@program
def a_size_out_of_data(x):
    n = int(abs(x).max())
    torch._check(n >= 0)
    torch._check(n < 100)
    return torch.zeros(n) + 1, torch.arange(n)


@program
def a_size_that_is_asserted(x):
    n = x.abs().long().sum().item()
    assert n >= 0
    return torch.ones(n)


@program
def asserted_of_all_elements(x):
    assert (abs(x) < 100).all(), "too large"
    return x * 2


@program
def asserted_and_false(x):
    assert x.sum() > 0, "must be positive"
    return x + 1


@program
def asserted_of_several(x):
    total = x.sum().item()
    assert total > -100 and total < 100
    return x * total


@program
def asserted_within_a_call(x):
    def checked(y):
        assert y.max() < 20
        return y - 1

    return checked(x) + checked(x + 1)


@program
def asserted_after_a_change_break(x):
    seen = {}
    globals()["_SEEN"] = seen
    assert x.sum() > 0
    return x


@program
def asserted_and_handled_break(x):
    try:
        assert x.sum() > 0
    except AssertionError:
        return x - 1
    return x + 1


@program
def elements_that_are_chosen(x):
    chosen = x[x > 1]
    return chosen, chosen / max(chosen.numel(), 1), torch.masked_select(x, x > 2).sum()


@program
def places_of_elements(x):
    return torch.nonzero(x > 1), torch.where(x > 2)[0], x.flatten().nonzero().squeeze(1).shape[0] * 2


@program
def distinct_elements(x):
    return torch.unique(x), torch.unique(x, return_counts=True)[1]


@program
def repeated_as_data_says(x):
    return torch.repeat_interleave(x[:, 0], x[:, 0].abs().long())


@program
def split_as_data_says(x):
    sizes = x[0].abs().long().tolist()
    return [part.sum() for part in torch.split(torch.arange(float(sum(sizes))), sizes)]


@program
def an_element_at_a_place_in_data(x):
    i = x[0].argmax().item()
    return x[1, i] * 2, x[:, i]


@program
def a_mask_of_lengths(x):
    lengths = x[0].abs().long()
    n = lengths.max().item()
    return torch.arange(n)[None, :] < lengths[:, None]


@program
def a_tensor_of_numbers_found(x):
    return torch.tensor(x[0].tolist()), torch.tensor([x[0, 0].item(), 2.0])


@program
def mathematics_of_numbers_found(x):
    total = x.sum().item()
    return math.exp(-abs(total) / 100) * x, round(total, 1), int(total) // 2, total == 1.0


@program
def a_decision_by_data_break(x):
    return x + 1 if x.sum().item() > 0 else x - 1
