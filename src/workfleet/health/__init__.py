"""Health: small indicators, and the service that asks them all. Liveness is not decided here, but by the supervisor."""
