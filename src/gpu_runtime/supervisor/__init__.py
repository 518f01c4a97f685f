"""Runs other processes: starts them in order, watches, restarts and stops them. Does not depend on what they do."""
