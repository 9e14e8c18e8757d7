"""A question: may a stage be trusted? The standard set, random problems, budgets, sanitizers.

Imports the families and the rooms below.
"""
