"""Storages: data that outlives units."""
