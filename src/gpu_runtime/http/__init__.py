"""The REST API: typed routes over the use cases of `service`, one envelope, one mapping of errors."""
