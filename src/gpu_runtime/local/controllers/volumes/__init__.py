"""Volumes: claims are bound to folders under the data directory, which are made for them and go with them."""
