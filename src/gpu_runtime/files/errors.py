"""Why a request for files is refused, each with its HTTP status and a code for programs."""

from __future__ import annotations


class Refused(Exception):
    """Nothing is served. The message tells the user why."""

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
    """What was promised cannot be sent: a file became shorter while it was read, or folders are too deep."""
