"""Errors, files, plain text, how programs end, and the one channel by which work says how far it is.

The standard library only; imports no other room.
"""
