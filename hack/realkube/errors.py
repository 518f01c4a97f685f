"""What goes wrong here in a way that a person can act on."""


class RealKubeError(Exception):
    """Its message is one line that says what is wrong and what to do."""
