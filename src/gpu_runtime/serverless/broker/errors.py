"""What can go wrong at the broker."""

from __future__ import annotations


class BrokerError(Exception):
    """The broker did not do what it was asked."""


class NoAnswer(BrokerError):
    """No answer in time: the message may be stored or not. Ask again; never assume."""


class Full(BrokerError):
    """The broker refused the message: a limit of the stream or of the disk is reached. Nothing was stored."""


class NotConfigured(BrokerError):
    """A stream or consumer that should exist does not, or the broker does not allow its use."""
