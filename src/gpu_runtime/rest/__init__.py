"""The REST contract as types: requests with their validation, views and errors. A client needs this and `api` alone."""
