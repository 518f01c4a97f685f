"""Credentials at the broker: keys, signed JWTs, and what each role may do."""
