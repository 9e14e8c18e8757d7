"""`kda-learn VERB`: the package on the command line.

Imports all rooms but exercises, lessons, widgets and maintain.
"""
