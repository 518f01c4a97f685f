"""HTTP access to units: a request names a unit, and what the cluster says about that unit decides where it goes."""
