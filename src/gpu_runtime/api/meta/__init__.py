"""What every Kubernetes object has, whatever its kind. Knows nothing of GPUs."""
