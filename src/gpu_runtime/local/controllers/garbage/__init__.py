"""Garbage collection: what nobody owns any more goes, in the way that its owner's deletion asked for."""
