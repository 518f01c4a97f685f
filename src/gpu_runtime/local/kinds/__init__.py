"""The parts of Kubernetes objects that controllers, scheduler and node read and write, named as on the wire.

Fields that nobody here needs are not decoded.
"""
