"""What a call costs where kernels are short: batches of one, one token after the other, a graph of three kernels."""
