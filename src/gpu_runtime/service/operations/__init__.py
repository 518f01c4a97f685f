"""Records of what clients asked for, and everything that follows them: hash, waiting, jobs, sweeping."""
