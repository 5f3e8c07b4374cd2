"""The benchmark: every system on the same data, model and local training, from one recipe."""
