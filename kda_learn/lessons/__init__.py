"""The words a notebook uses: each gives an object that displays itself and carries its data.

They add the display and nothing else; what they show is worked out by the modules of the package itself,
which plain programs use. Jupyter's packages and matplotlib are imported only where they are needed.
"""
