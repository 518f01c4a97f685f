"""The durable records of invocations: what was accepted, how it ended, and what nobody could handle."""
