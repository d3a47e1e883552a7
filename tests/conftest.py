"""How hypothesis looks for examples, in all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# The same examples in every run, so that a change fails by its own fault; PROFSUITE_EXPLORE=1 looks for new ones.
# No deadline: the first example pays for imports, and time is measured elsewhere.
settings.register_profile("profsuite", deadline=None, derandomize="PROFSUITE_EXPLORE" not in os.environ)
settings.load_profile("profsuite")
