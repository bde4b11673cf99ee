"""Generated Python: the wrapper that allocates, launches kernels and calls ATen.

Flows in: `Schedule`. Flows out: `WrapperSource`, then a module whose `call` runs it.
"""
