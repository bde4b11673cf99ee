"""Whole programs as people write them around real libraries; `python -m benchmarks --suite programs` runs them."""
