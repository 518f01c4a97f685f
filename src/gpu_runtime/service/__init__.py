"""Use cases behind the REST API. Two replicas are the normal case: the API server decides every claim."""
