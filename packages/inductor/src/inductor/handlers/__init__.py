"""What can run or read a body: the interpreter over torch tensors, and the reference backend made of it."""
