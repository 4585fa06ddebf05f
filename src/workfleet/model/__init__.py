"""Pure values and decisions: no I/O, no clock, no asyncio. Everything else stands on this."""
