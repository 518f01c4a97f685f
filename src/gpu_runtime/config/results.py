"""Where the results of invocations are: what the result store and its readers share."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

DATABASE = r"^(sqlite:///.+|postgres(ql)?://.+)$"


class ResultsSettings(Struct, frozen=True, kw_only=True):
    """The database of results."""

    database: Annotated[
        Annotated[str, Meta(pattern=DATABASE)] | None,
        Meta(
            description="sqlite:///PATH (an absolute path has four slashes) for one machine, "
            "or postgresql://USER@HOST:PORT/DATABASE. Without the password.",
        ),
    ] = None
    passwordFile: Annotated[
        str | None, Meta(description="The file with the password of the user in a postgresql:// database.")
    ] = None
    tlsMode: Annotated[
        str,
        Meta(
            pattern="^(disable|prefer|require|verify-ca|verify-full)$",
            description="As sslmode of PostgreSQL. verify-ca and verify-full need caFile.",
        ),
    ] = "prefer"
    caFile: Annotated[str | None, Meta(description="The certificates that sign the certificate of PostgreSQL.")] = None
