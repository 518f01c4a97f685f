"""Records of what clients asked for, and everything that follows them: executors, hash, waiting, jobs, sweeping."""
