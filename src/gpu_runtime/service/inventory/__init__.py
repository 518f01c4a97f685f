"""What the whole platform holds and has left."""
