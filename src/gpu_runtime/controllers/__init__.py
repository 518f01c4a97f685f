"""Reconcilers of the product's kinds: pure builders and status chains, and thin loops that write the difference."""
