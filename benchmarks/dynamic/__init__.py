"""Programs called with changing sizes: right at every size, and compiled no more often than sense allows; `python -m benchmarks --suite dynamic`."""
