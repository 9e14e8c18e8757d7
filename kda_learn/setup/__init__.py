"""What `make` runs: look at this computer, install into .venv, open the notebooks; `doctor`.

`install` and `plan` need the standard library only. Imports checking and the rooms below.
"""
