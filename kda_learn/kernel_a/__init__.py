"""A family of kernels: Kernel A, the reverse scan of the state's gradient.

Its shapes, variants, arguments, inputs and float64 truth; what makes runnables of a problem. Imports the
engines (tracing), records, and the rooms below; no question.
"""
