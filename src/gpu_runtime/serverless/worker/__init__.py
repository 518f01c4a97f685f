"""The worker: pulls the invocations of one function, has the user's framework run them, and publishes their ends."""
