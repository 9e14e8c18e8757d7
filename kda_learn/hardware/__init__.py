"""What a Hopper SM does with an address or a register: banks, layouts, fragments, occupancy, bf16.

Imports ground. Pure functions; no kernel, no machine.
"""
