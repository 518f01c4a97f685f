"""A level-triggered controller runtime on aiohttp and msgspec. Knows nothing of GPUs."""
