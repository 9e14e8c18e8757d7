"""The explorers that a reader can move: bank map, register tiles, prediction; their controls are JavaScript.

They work in notebooks and on pages without Python. Imports kernel_a and hardware. Needs anywidget.
"""
