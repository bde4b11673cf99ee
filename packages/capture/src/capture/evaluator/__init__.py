"""The symbolic evaluator of bytecode: a ``Machine`` composed of parts, the frames it runs, and handlers of opcodes by family.

In: a frame's code and its values as variables. Out: the parts at its end: guards, side effects, the graph.
"""
