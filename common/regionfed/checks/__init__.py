"""What is wrong, by name, before and during a run: `regionfed check`."""
