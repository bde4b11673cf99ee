"""Before any test module is imported: Triton's kernels run under its interpreter, and nothing is taken from old caches."""

import os

# Triton binds its own library functions one way or the other when it is first imported, whoever does that.
os.environ["TRITON_INTERPRET"] = "1"
