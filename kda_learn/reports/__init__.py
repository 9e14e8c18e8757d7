"""`kda-learn reproduce`: the whole ladder on one GPU, as a page to read and a file (the pack) to share.

Imports setup, display and the rooms below.
"""
