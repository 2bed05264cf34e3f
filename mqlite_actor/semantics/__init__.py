"""The verbs: synchronous functions `f(tx, request, now_ms) -> response` that decide, then write."""
