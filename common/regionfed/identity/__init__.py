"""Who is who: certificates for TLS, keys of nodes, and requests that keep keys on their site."""
