"""The children of a unit, one pure builder each. Children have the unit's name."""
