"""How results look: tables, banners, progress bars, figures and charts, the glossary of a profile.

Imports performance and the rooms below.
"""
