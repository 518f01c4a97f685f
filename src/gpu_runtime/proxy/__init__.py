"""HTTP access to units: the path names a unit, and the cluster's state of that unit decides the target address."""
