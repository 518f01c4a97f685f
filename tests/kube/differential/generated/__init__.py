"""Calls made up from a seed: kinds x verbs x what is right or wrong with them."""
