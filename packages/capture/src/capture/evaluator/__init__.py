"""The symbolic interpreter: evaluates bytecode over variables, an operation at a time."""
