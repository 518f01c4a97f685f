"""Jobs: pods until enough of them have succeeded, or until it is clear that they will not."""
