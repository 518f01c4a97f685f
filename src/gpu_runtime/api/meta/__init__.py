"""Types for every Kubernetes object, whatever its kind. Nothing here is specific to GPUs."""
