"""The node of the embedded cluster: pods as sandboxed process trees of this machine."""
