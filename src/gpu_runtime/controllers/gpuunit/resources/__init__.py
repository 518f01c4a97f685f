"""What a unit owns, one pure builder a child. Children carry the unit's own name."""
