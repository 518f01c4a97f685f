"""GPUUnit: a reservation in a stock namespace, a user's running instance in any other."""
