"""Random programs over a random state, and random changes between their calls."""
