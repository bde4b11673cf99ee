"""Refuses the interpreters that the native part can't serve, with one sentence, before anything else is imported."""

import sysconfig

if sysconfig.get_config_var("Py_GIL_DISABLED"):
    raise ImportError("capture does not work on free-threaded builds of Python: use one with the GIL")

from . import _native  # noqa: F401  (it refuses sub-interpreters)
