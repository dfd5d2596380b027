"""Parts for bpo that its own package does not have."""
