"""Data from files of the user's own."""
