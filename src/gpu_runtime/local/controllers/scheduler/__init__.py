"""The scheduler: binds each pod to a node that has room for it, in order of priority."""
