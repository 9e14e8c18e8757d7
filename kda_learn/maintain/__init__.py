"""`python -m kda_learn.maintain`: writes what the repository keeps of measurements and sources.

Records and budgets in data/, README's table, the exact versions in constraints-*.txt (the pins). Imports
performance and the rooms below.
"""
