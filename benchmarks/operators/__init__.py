"""torch's operator database through our compiler: every operator, several dtypes, forward and gradients, compared with eager."""
