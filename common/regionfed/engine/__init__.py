"""All tiers in one process: the same apps over local grids.

The one part of `regionfed` that knows the three apps, because it has to put them together.
"""

from regionfed.engine.simulate import simulate

__all__ = ["simulate"]
