"""A reader's lines in place of a kernel's: `%%kernel`, `grade`, `hint`.

Imports lessons and the rooms below.
"""
