"""Whole models at twenty random sizes each, inference and training; importing this registers them as rows."""

from benchmarks.dynamic.zoo import library_text, library_vision, plain, timm_images  # noqa: F401
