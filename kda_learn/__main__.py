"""`python -m kda_learn VERB` is `kda-learn VERB`."""

import sys

from .cli.main import main

sys.exit(main())
