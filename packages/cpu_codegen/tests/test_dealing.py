"""Kernels dealt to files."""

from __future__ import annotations

import pytest

from cpu_codegen.dealing import deal

PLAIN, PRODUCT, CONVOLUTION = "x" * 500, '#include "product.h"\n' + "y" * 900, '#include "convolution.h"\n' + "z" * 900


@pytest.mark.parametrize("processors", [1, 2, 3, 16])
@pytest.mark.parametrize("counts", [(0, 0, 0), (1, 0, 0), (0, 1, 0), (40, 0, 0), (0, 30, 0), (30, 8, 3), (3, 1, 20)])
def test_every_text_is_in_one_file(processors, counts):
    texts = [
        f"{text}{k}" for text, count in zip((PLAIN, PRODUCT, CONVOLUTION), counts, strict=True) for k in range(count)
    ]
    groups = deal(texts, processors)
    assert sorted(text for group in groups for text in group) == sorted(texts)
    assert 1 <= len(groups) <= processors and (all(groups) or not texts)


def test_a_header_is_read_once_where_others_have_enough_to_do():
    groups = deal([PLAIN + str(k) for k in range(30)] + [PRODUCT + str(k) for k in range(4)], 2)
    assert sum(any("product.h" in text for text in group) for group in groups) == 1


def test_a_header_is_read_twice_where_it_is_all_there_is_to_do():
    first, second = deal([PRODUCT + str(k) for k in range(40)], 2)
    assert len(first) == len(second) == 20
