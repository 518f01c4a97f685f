"""The one error that ends a process with exit code 2."""


class ConfigError(Exception):
    """The configuration cannot work, and trying again cannot help. One line for each problem."""
