"""Client tier: training, the user's own model, and the device command line."""
