"""Random programs over shapes, called with random sizes and numbers."""
