"""Regional tier: the coordinator's two Flower apps and its daemon."""
