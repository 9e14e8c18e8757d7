"""Makes pages of the site from notebooks and kernels; site/hook.py is where MkDocs calls it."""
