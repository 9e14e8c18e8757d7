"""A family of kernels: Kernel A, the reverse scan of the state's gradient.

A family makes runnables (see room machines) of its problems: shapes, variants, arguments, inputs, truth in
float64. A second family is another room beside this one, and its kernels another folder of kernels/: the
engines serve it as it is, and the questions above (check, ladder, lessons) are asked of it in their own
rooms. Imports records, the engine tracing, and the rooms named before it in README's map.
"""
