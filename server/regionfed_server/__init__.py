"""Global tier: the server's Flower app and its state."""
