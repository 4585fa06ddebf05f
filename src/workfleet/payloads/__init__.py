"""Payloads and results as JSON: typed encoding and decoding, strict checks, and the hints of handlers."""
