"""Invocations of serverless functions: submit, look up, wait, cancel, retry, and dead letters."""
