"""StockPool: a Deployment of identical runtime pods, and a Service when they listen."""
