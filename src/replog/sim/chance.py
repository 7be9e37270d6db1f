"""Every choice of a run, drawn from one seed.

A choice is named by its site, and each site has a stream of its own: the n-th draw of a site
depends on (seed, site, n) and on nothing else. So a change in one corner of the world does not
shift the choices of another.
"""

import random


class Chance:
    """Streams of random numbers by site."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._sites: dict[str, random.Random] = {}

    def at(self, site: str) -> random.Random:
        """The stream of `site`. Seeding from text does not depend on PYTHONHASHSEED."""
        stream = self._sites.get(site)
        if stream is None:
            stream = self._sites[site] = random.Random(f"{self.seed}/{site}")
        return stream

    def happens(self, site: str, probability: float) -> bool:
        """True with `probability`. Draws nothing when it can't happen."""
        return probability > 0 and self.at(site).random() < probability

    def delay(self, site: str, mean_ms: float, *, least_ms: float = 0.05) -> float:
        """Milliseconds, exponential around `mean_ms`, never below `least_ms`."""
        return least_ms + self.at(site).expovariate(1.0) * mean_ms
