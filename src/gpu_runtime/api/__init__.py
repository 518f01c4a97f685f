"""The API types: generic object metadata, the kinds of the product, and the manifests generated from them."""
