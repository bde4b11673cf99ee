"""Puts `support/` on the path. Not this folder itself: its folder `triton/` would pass for the package of that name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
