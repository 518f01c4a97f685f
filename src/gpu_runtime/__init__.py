"""Turns GPU machines into a product, on Kubernetes or on one machine."""
