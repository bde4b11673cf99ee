"""The device that the compiler itself computes on, whatever it compiles for, and whose memory files are read into."""

from __future__ import annotations

import torch

HOST = torch.device("cpu")
