"""Builders of what a function owns. Pure: same input, same bytes."""
