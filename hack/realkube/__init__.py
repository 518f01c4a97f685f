"""A real Kubernetes on this machine: built from Go modules, started in seconds, gone without a trace."""
