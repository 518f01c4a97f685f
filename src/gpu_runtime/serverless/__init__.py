"""Serverless functions: the queue of invocations, the workers that run them, and their results."""
