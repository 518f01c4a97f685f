"""Deployments: one ReplicaSet a template, scaled up and down so that enough pods are available all the while."""
