"""A question: how fast is a stage, beside its base, the article and the floors, and why?

Ladder, VSplit, blocks, ceilings, roofline, profiles, and the reasons from counters. Imports checking, the
families and the rooms below.
"""
