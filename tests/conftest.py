"""Settings for all tests: drawings without a screen, and no time limit for a single example.

The first example of a test may have to wait for a compiler, so a deadline
would only measure the machine.
"""

import matplotlib
from hypothesis import settings

matplotlib.use("Agg")
settings.register_profile("nearsay", deadline=None)
settings.load_profile("nearsay")
