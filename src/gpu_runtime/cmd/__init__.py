"""One module a process: what it may do (PERMISSIONS), and `run`, which runs it until a signal."""
