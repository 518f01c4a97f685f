"""The embedded cluster as one thing: API server here, controllers and node agent as children that are kept alive."""
