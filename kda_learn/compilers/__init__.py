"""A source becomes a binary: NVRTC for a GPU, a C++ compiler for the CPU machine; their logs, SASS.

Imports ground and sources.
"""
