"""The REST API: typed routes that call the use cases of `service`, one response envelope, one mapping of errors."""
