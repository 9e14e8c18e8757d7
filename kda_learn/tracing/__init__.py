"""An engine: a runnable's traced launch, line by line, in wavefronts.

Imports machines and the rooms below.
"""
