"""Custom kinds: CustomResourceDefinitions and the objects that they define."""
