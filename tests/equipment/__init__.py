"""What tests stand on: servers to talk to, faults to put in between, judges of what was seen."""
