"""Requests that the real server calls its own failure (500), and what the embedded one answers in place of that."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Failure:
    """A message of the real server, the code and reason that our server answers instead, and why."""

    message: re.Pattern[str]
    ours: tuple[int, str]
    why: str


def failure(message: str, why: str, code: int = 400, reason: str = "BadRequest") -> Failure:
    return Failure(re.compile(message), (code, reason), why)


KNOWN = (
    failure(r"Object '(apiVersion|Kind)' is missing in", "a patched object without a type is the client's fault"),
    failure(r'strconv.ParseUint: parsing ".*": invalid syntax', "a version that is no number is the client's fault"),
    failure("resourceVersion should not be set on objects to be created", "so is a version of what is not there yet"),
    failure("does not contain declared merge key", "a strategic patch must name the items that it changes"),
    failure("unknown patch type: ", "and say in a known way what becomes of them"),
    failure("^target.name: Required value", "a binding needs a node"),
    failure(
        "^the spec replicas field .* does not exist|: the spec replicas field .* does not exist", "nothing to scale"
    ),
    failure("^no preferred addresses found", "the real server looks for the kubelet; ours sees that nothing runs yet"),
)


def ours_instead(message: str) -> list[tuple[int, str]]:
    """What ours may answer where the real server fails with this message; nothing for a failure that is not known."""
    return [failure.ours for failure in KNOWN if failure.message.search(message)]
