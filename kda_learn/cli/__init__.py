"""`kda-learn VERB`: reads the command line, asks the rooms below, prints their answer as text or as JSON.

Imports all rooms but exercises, lessons, widgets and maintain.
"""
