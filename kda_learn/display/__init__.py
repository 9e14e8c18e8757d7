"""The parts that results are shown with: tables, banners, progress bars, figures, charts, a glossary.

Imports performance and the rooms below.
"""
