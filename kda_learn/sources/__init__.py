"""Reading a .cu file, and which stages there are.

Imports ground.
"""
