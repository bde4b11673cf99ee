"""Whole models of ordinary size on a CPU: a step of ours beside torch.compile's and eager's, in one process a model."""
