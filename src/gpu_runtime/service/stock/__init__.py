"""Warm stock: pools, seeding, which unit is picked and claimed."""
