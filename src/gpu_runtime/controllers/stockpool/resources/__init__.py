"""What a pool owns, one pure builder a child."""
