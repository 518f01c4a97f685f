"""Errors of the HTTP server, each with its status and a code for programs."""

from __future__ import annotations


class Refused(Exception):
    """The request is refused. The message tells the user why."""

    status = 400
    code = "invalid_request"


class FileNotServed(Refused):
    """There is nothing at this path, or it went away while it was opened."""

    status = 404
    code = "file_not_found"


class Forbidden(Refused):
    """There is something at this path that is never served."""

    status = 403
    code = "forbidden"


class MethodNotAllowed(Refused):
    status = 405
    code = "method_not_allowed"


class Busy(Refused):
    status = 503
    code = "busy"


class Incomplete(Exception):
    """A response that has begun cannot be finished: a file became shorter, or folders are nested too deep."""
