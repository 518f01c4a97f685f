"""Garbage collection: deletes objects whose owners are gone, by the propagation policy of the owner's deletion."""
