"""GPUStorage: a claim for a volume that outlives the units that mount it."""
