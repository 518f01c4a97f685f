"""The children of a pool, one pure builder each."""
