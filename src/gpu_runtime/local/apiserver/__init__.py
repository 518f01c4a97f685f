"""A Kubernetes-compatible API server on SQLite, for one machine. It would serve any operator."""
