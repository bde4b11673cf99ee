"""Every architecture of transformers in a tiny configuration and the smallest model of each timm family, one process each."""
