"""Queues: declaring handlers, claiming jobs, running them, settling what became of them, recovering what was lost."""
