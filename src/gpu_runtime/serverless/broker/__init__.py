"""The NATS broker: connection, streams, and the one kind of write that decides."""
