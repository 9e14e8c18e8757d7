"""The words of a notebook, one module a word: each gives an object that shows itself and carries its data.

What they show is worked out below, where plain programs find it. Imports display and the rooms below.
"""
