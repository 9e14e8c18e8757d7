"""How fast is a stage, beside its base, the article and the floors, and why?

Ladder (its rows, columns and text), VSplit, blocks, ceilings, roofline, profiles, the reasons from counters.
Imports checking and the rooms below.
"""
