"""The embedded cluster: the API server in this process, controllers and node agent as supervised children."""
