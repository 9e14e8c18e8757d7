"""The words of a notebook, one module a word: each gives an object that shows itself and carries its data.

Imports display, widgets and the rooms that those import, where the data are worked out.
"""
