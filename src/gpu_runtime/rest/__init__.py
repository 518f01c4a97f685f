"""The REST contract as types: requests, views and errors. A client needs this package and `api` alone."""
