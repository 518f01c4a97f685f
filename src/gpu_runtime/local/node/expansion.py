"""`$(VAR)` in commands, arguments and variables, as Kubernetes expands it."""

from __future__ import annotations

from collections.abc import Mapping


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replaces `$(NAME)` where NAME is known, leaves it where it is not; `$$` is one dollar sign and starts nothing."""
    out: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        following = text[position + 1 : position + 2]
        if character == "$" and following == "$":
            out.append("$")
            position += 2
        elif character == "$" and following == "(" and (end := text.find(")", position)) > 0:
            name = text[position + 2 : end]
            out.append(variables.get(name, text[position : end + 1]))
            position = end + 1
        else:
            out.append(character)
            position += 1
    return "".join(out)
