"""The controllers and the scheduler of the embedded cluster: the second user of the controller runtime."""
