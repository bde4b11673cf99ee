"""The rows by family; importing this registers them all."""

from benchmarks.dynamic.families import (  # noqa: F401
    arithmetic,
    data,
    elementwise,
    factories,
    indexing,
    layouts,
    marks,
    models,
    numbers,
    pretrained,
    products,
    special,
    training,
    views,
)
