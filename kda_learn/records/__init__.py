"""Who measured what, when and from which kernel; the article's figures.

Imports machines and the rooms below.
"""
