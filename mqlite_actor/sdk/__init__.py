"""The Python face: handles, messages and connection strings. Nothing is imported by itself."""
