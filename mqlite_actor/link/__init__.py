"""The link between processes: one engine, shared over a Unix socket or a socket pair."""
