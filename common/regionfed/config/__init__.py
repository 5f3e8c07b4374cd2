"""The federation file: one TOML, read into one typed object."""
