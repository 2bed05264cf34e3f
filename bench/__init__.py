"""Measurements: ratios inside one run, never asserted by tests. See bench/README.md."""
