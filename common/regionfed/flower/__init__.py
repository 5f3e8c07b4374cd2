"""The only places that touch Flower's private parts, and the grids that bound every wait."""
