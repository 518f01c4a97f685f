"""Warm stock: pools, seeding, picking and claiming units."""
