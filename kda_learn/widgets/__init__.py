"""Explorers for notebooks and for pages without Python: Python state, JavaScript pictures.

Imports kernel_a and hardware. Needs anywidget.
"""
