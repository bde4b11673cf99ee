"""Before any test module is imported: Triton's kernels run under its interpreter, unless asked otherwise."""

import os

# Triton binds its own library functions one way or the other when it is first imported, whoever does that.
# On a machine with a GPU: `TRITON_INTERPRET=0 pytest tests_integration/test_gpu.py`.
os.environ.setdefault("TRITON_INTERPRET", "1")
