"""Operation records and the code that works on them: executors, request hash, waiter, jobs, sweeper."""
