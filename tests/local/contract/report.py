"""What schemathesis sent and was answered, from its report of events."""

from __future__ import annotations

import base64
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Documented = tuple[str, str, int]
"""Method, path and status."""


@dataclass
class Report:
    """Requests by what they were answered, and every check that failed."""

    answers: Counter[Documented] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def requests(self) -> int:
        return self.answers.total()

    @property
    def successes(self) -> int:
        return sum(count for (_, _, status), count in self.answers.items() if 200 <= status < 300)

    def read(self, path: Path) -> Report:
        with path.open() as lines:
            for line in lines:
                (event,) = json.loads(line).values()
                recorder = event.get("recorder") if isinstance(event, dict) else None
                if recorder and "interactions" in recorder:
                    self._add(recorder, event["phase"])
        return self

    def _add(self, recorder: dict[str, Any], phase: str) -> None:
        for case_id, interaction in recorder["interactions"].items():
            case, response = recorder["cases"][case_id]["value"], interaction.get("response")
            status = response["status_code"] if response else 0
            self.answers[case["method"].upper(), case["path"], status] += 1
            for check in recorder["checks"].get(case_id, ()):
                if check["status"] != "success":
                    self.failures.append(f"{phase}: {check['name']}: {_told(interaction, check)}")


def _told(interaction: dict[str, Any], check: dict[str, Any]) -> str:
    request, response = interaction["request"], interaction.get("response") or {}
    why = (check.get("failure_info") or check).get("failure", {})
    return "\n  ".join(
        (
            str(why.get("message", "")).replace("\n", "; "),
            f"{request['method']} {request['uri']}",
            _text(request.get("body")),
            f"{response.get('status_code')} {_text(response.get('content'))}",
        )
    )


def _text(content: dict[str, str] | None) -> str:
    return base64.b64decode((content or {}).get("$base64", "")).decode(errors="replace")[:2000]
