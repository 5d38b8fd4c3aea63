"""The seed of everything random in tests: the same each day in `make test`, a new one in each `make test-all`.

`DUENOTICE_SEED=N .venv/bin/pytest …` runs what a run with that seed has run; pytest prints the seed in its first lines.
"""

import os

IS_FRESH = "DUENOTICE_SEED" in os.environ
SEED = int(os.environ.get("DUENOTICE_SEED", "1"))
