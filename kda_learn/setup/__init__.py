"""What `make` runs: look at the machine, install into .venv, open the notebooks. Standard library only."""
