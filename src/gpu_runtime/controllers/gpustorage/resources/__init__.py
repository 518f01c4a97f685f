"""Builders of a storage's children."""
