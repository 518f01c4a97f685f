"""Work on the files of one volume: serve them, copy them, clear them. Knows nothing of Kubernetes or GPUs."""
