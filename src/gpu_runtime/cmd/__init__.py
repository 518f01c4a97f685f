"""The processes: processes.py declares each one, and each has a module with its `main`."""
