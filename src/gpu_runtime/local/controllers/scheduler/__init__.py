"""The scheduler: each pod on a node that has room for it, the important ones first."""
