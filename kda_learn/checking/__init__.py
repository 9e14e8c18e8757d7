"""May a stage be trusted? The standard set of problems, random ones, wavefront budgets, the verdict.

Imports the families and the rooms below.
"""
