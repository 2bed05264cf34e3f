"""The HTTP broker: the same engine, served."""
