"""The nouns: generic object metadata, the product's kinds, and the manifests generated from them."""
