"""The REST contract as types: requests, views and errors. A client needs only this package and `api`."""
