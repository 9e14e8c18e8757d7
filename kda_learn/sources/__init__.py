"""Reading a .cu file, and the ladder: the list of Kernel A's stages and their files.

Imports ground.
"""
