"""Reading a .cu file, and the ladder: the list of stages and their files.

Imports ground.
"""
