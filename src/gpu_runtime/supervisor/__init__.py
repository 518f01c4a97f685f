"""Runs other processes: starts them in order, watches, restarts and stops them. Knows nothing of what they do."""
