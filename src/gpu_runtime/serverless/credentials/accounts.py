"""The two accounts of the broker, and what workers may use of the platform's.

The streams live in the account of the platform. Workers are users of another account, which imports what workers need.
One account for both would not do: a user may name any subject for the answer to a request, and the broker publishes
the answer there without a check of permissions. A worker could so store results of other functions and change streams.
An answer to another account is delivered in that account alone.
"""

from __future__ import annotations

from typing import Any

from gpu_runtime.serverless.stream_names import BODIES, INVOCATIONS, RESULTS

SERVICES = (
    f"$JS.API.CONSUMER.MSG.NEXT.{INVOCATIONS}.*",
    f"$JS.ACK.{INVOCATIONS}.>",
    f"$JS.API.DIRECT.GET.{RESULTS}.res.>",
    f"$JS.API.DIRECT.GET.{BODIES}.body.>",
    "res.>",
    "body.>",
    "out.>",
    "wrk.>",
)
"""What workers publish to. A request gets one answer, so a worker asks for one invocation at a time.

The broker would also deliver several answers, but then it keeps about 1 KB for each request for some minutes.
"""
FEEDS = ("ctl.>", "cancel.>")
"""What workers may subscribe to."""


def exports() -> list[dict[str, Any]]:
    """The exports of the platform's account."""
    return [
        *({"name": subject, "subject": subject, "type": "service"} for subject in SERVICES),
        *({"name": subject, "subject": subject, "type": "stream"} for subject in FEEDS),
    ]


def imports(platform: str) -> list[dict[str, Any]]:
    """The imports of the workers' account from the platform's, whose public key is given."""
    services = [_import(subject, platform, "service") for subject in SERVICES]
    return services + [_import(subject, platform, "stream") for subject in FEEDS]


def _import(subject: str, account: str, kind: str) -> dict[str, Any]:
    return {"name": subject, "subject": subject, "account": account, "type": kind}
