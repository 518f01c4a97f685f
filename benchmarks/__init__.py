"""Rates and ratios, each beside the ceiling measured in the same run. Nothing here asserts a time."""
