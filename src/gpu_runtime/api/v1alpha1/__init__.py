"""The kinds of the product: `runtime.lokiwager.io/v1alpha1`."""
