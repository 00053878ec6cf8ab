"""Slow, obvious twins of every fast path. Clear first: no blocking, no tricks."""
