"""Where a client's rows come from: the built-in generator, real files, the hub, the user's own files."""
