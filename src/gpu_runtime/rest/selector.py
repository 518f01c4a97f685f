"""Label selectors as kubectl writes them: `a=b,c!=d,e in (f,g),h,!i`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_NAME = r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_PART = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
# The same rules for keys and values as on the API server: a watch passes the selector on unchanged.
_KEY, _VALUE = rf"({_PART}(\.{_PART})*/)?{_NAME}", rf"({_NAME})?"
_ONE = rf"(! *{_KEY}|{_KEY}( *(==|=|!=) *{_VALUE}| +(in|notin) *\({_VALUE}( *, *{_VALUE})*\))?)"
PATTERN = rf"^( *{_ONE} *(, *{_ONE} *)*)?$"
"""Regular expression of a selector, for schemas."""

_REQUIREMENT = re.compile(
    r"\s*(?:(?P<absent>!)\s*(?P<gone>[\w./-]+)"
    r"|(?P<key>[\w./-]+)(?:\s*(?P<operator>==|=|!=)\s*(?P<value>[\w.-]*)"
    r"|\s+(?P<set>in|notin)\s*\((?P<values>[\w.,\s-]*)\))?)\s*(?:,(?!$)|$)",
    re.ASCII,
)


@dataclass(frozen=True)
class Requirement:
    """A condition on one label. With `values` None, the label must exist."""

    key: str
    values: frozenset[str] | None
    negated: bool

    def holds(self, labels: Mapping[str, str]) -> bool:
        if self.values is None:
            return (self.key in labels) is not self.negated
        # As on the API server, != and notin also hold where the label is absent.
        return (labels.get(self.key) in self.values) is not self.negated


@dataclass(frozen=True)
class Selector:
    """All requirements must hold. A selector without requirements matches everything."""

    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Selector:
        """ValueError shows the position of the syntax error."""
        requirements: list[Requirement] = []
        place = 0
        while place < len(text):
            match = _REQUIREMENT.match(text, place)
            if match is None:
                raise ValueError(f"is not a label selector at {text[place:]!r}: write a=b,c!=d,e in (f,g),h,!i")
            requirements.append(_requirement(match))
            place = match.end()
        return cls(tuple(requirements))

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.holds(labels) for requirement in self.requirements)


EVERYTHING = Selector()


def _requirement(match: re.Match[str]) -> Requirement:
    if match["absent"]:
        return Requirement(match["gone"], None, negated=True)
    if match["set"]:
        values = frozenset(value.strip() for value in match["values"].split(","))
        return Requirement(match["key"], values, negated=match["set"] == "notin")
    if match["operator"]:
        return Requirement(match["key"], frozenset((match["value"],)), negated=match["operator"] == "!=")
    return Requirement(match["key"], None, negated=False)
