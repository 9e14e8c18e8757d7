"""`python -m kda_learn.maintain WHAT`: records, budgets, README's table, pins.

Imports performance and the rooms below.
"""
