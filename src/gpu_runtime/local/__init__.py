"""The embedded cluster: a Kubernetes-compatible API server, controllers and a node agent on one machine."""
