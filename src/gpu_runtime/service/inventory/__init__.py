"""Capacity and stock of the whole platform."""
