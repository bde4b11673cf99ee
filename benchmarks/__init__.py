"""One harness: eager, torch.compile and ours in the same run, interleaved, compared as ratios of medians."""
