"""A question asked of a whole GPU: `reproduce`, its page and its pack.

Imports performance, setup and the rooms below.
"""
