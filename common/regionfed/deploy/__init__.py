"""How the tiers run in containers: roles, start-up checks, health, and the files that start them."""
