"""Serverless functions: what their workers are, and how their invocations are treated."""
