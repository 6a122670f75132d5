"""Where tests with random choices begin: PARTLOG_SEED is a number, or "random" for one that is drawn; without it, always the same,
so that what a change is told of comes from the change."""

import os
import random


def chosen_seed():
    given = os.environ.get("PARTLOG_SEED", "1")
    return random.SystemRandom().randrange(1 << 32) if given == "random" else int(given)
