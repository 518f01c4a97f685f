"""Users' units: hand-over from stock, updates, watches, logs and events."""
