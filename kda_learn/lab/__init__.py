"""Families of small kernels that answer one question each: banks, the traffic twin, the ceiling of mma.

Imports machines and the rooms below.
"""
