"""Users' units: the hand-over that makes one from stock, changes, watches, logs and events."""
