"""NumPy's functions over torch's tensors, with NumPy's dtypes and promotion: what a graph calls where a program calls NumPy.

Nothing here is imported where NumPy is not installed.
"""
