"""Records of GPUs, in data/: who measured what, when, from which kernel; and the article's figures.

Another GPU's record is another file in data/, written by `kda-learn VERB --record` or by room maintain; here
is how it is read, found, and known to be out of date. Imports machines and the rooms below.
"""
