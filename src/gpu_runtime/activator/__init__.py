"""The activator: reconciles GPUFunctions. Their workers are GPUUnits that start and stop with the queue."""
