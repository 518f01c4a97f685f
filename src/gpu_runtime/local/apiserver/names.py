"""Checks names, labels and annotations, with the messages of the real server."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from gpu_runtime.local.apiserver.errors import Cause, too_long, wrong

NameRule = Callable[[str], list[str]]

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_PATTERN = re.compile(_LABEL)
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_SUBDOMAIN_PATTERN = re.compile(_SUBDOMAIN)
_DNS1035_PATTERN = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_QUALIFIED_PATTERN = re.compile(_QUALIFIED)
_VALUE_PATTERN = re.compile(rf"({_QUALIFIED})?")
_PORT_PATTERN = re.compile(r"[-a-z0-9]+")
_KEY_PATTERN = re.compile(r"[-._a-zA-Z0-9]+")


def _regex_text(message: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{one}', " for one in examples)
    return f"{message} (e.g. {shown}regex used for validation is '{pattern}')"


def dns_label(name: str) -> list[str]:
    """RFC 1123 label: Namespaces, container names."""
    found = ["must be no more than 63 characters"] if len(name) > 63 else []
    if not _LABEL_PATTERN.fullmatch(name) and _SUBDOMAIN_PATTERN.fullmatch(name):
        found.append("must not contain dots")
    elif not _LABEL_PATTERN.fullmatch(name):
        text = (
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
            "and must start and end with an alphanumeric character"
        )
        found.append(_regex_text(text, _LABEL, "my-name", "123-abc"))
    return found


def dns_subdomain(name: str) -> list[str]:
    """RFC 1123 subdomain: most kinds."""
    found = ["must be no more than 253 characters"] if len(name) > 253 else []
    if not _SUBDOMAIN_PATTERN.fullmatch(name):
        text = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
            "and must start and end with an alphanumeric character"
        )
        found.append(_regex_text(text, _SUBDOMAIN, "example.com"))
    return found


def dns1035_label(name: str) -> list[str]:
    """RFC 1035 label: Services."""
    found = ["must be no more than 63 characters"] if len(name) > 63 else []
    if not _DNS1035_PATTERN.fullmatch(name):
        text = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
            "start with an alphabetic character, and end with an alphanumeric character"
        )
        found.append(_regex_text(text, "[a-z]([-a-z0-9]*[a-z0-9])?", "my-name", "abc-123"))
    return found


def path_segment(name: str) -> list[str]:
    """A valid segment of a URL path: RBAC kinds."""
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{bad}'" for bad in ("/", "%") if bad in name]


def anything(_name: str) -> list[str]:
    return []


def qualified_name(name: str) -> list[str]:
    """Label and annotation keys, finalizers, resource names: `[prefix/]name`."""
    found: list[str] = []
    parts = name.split("/")
    short = parts[-1]
    if len(parts) == 2:
        if not parts[0]:
            found.append("prefix part must be non-empty")
        else:
            # The real server counts bytes in label keys and values, and characters in names.
            found += [f"prefix part {one.replace('253 characters', '253 bytes')}" for one in dns_subdomain(parts[0])]
    elif len(parts) > 2:
        text = "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with"
        return [
            "a qualified name "
            + _regex_text(text, _QUALIFIED, "MyName", "my.name", "123-abc")
            + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    if not short:
        found.append("name part must be non-empty")
    elif len(short) > 63:
        found.append("name part must be no more than 63 bytes")
    if not _QUALIFIED_PATTERN.fullmatch(short):
        text = (
            "name part must consist of alphanumeric characters, '-', '_' or '.', "
            "and must start and end with an alphanumeric character"
        )
        found.append(_regex_text(text, _QUALIFIED, "MyName", "my.name", "123-abc"))
    return found


def label_value(value: str) -> list[str]:
    found = ["must be no more than 63 bytes"] if len(value) > 63 else []
    if not _VALUE_PATTERN.fullmatch(value):
        text = (
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
            "and must start and end with an alphanumeric character"
        )
        found.append(_regex_text(text, f"({_QUALIFIED})?", "MyValue", "my_value", "12345"))
    return found


def port_name(name: str) -> list[str]:
    """IANA service names: named ports of containers."""
    found = ["must be no more than 15 characters"] if len(name) > 15 else []
    if not _PORT_PATTERN.fullmatch(name):
        found.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any("a" <= one <= "z" for one in name):
        found.append("must contain at least one letter (a-z)")
    if "--" in name:
        found.append("must not contain consecutive hyphens")
    if name[:1] == "-" or name[-1:] == "-":
        found.append("must not begin or end with a hyphen")
    return found


def config_key(key: str) -> list[str]:
    """Keys of ConfigMaps and Secrets."""
    found = ["must be no more than 253 characters"] if len(key) > 253 else []
    if not _KEY_PATTERN.fullmatch(key):
        text = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        found.append(_regex_text(text, "[-._a-zA-Z0-9]+", "key.name", "KEY_NAME", "key-name"))
    if key == ".":
        found.append("must not be '.'")
    elif key == "..":
        found.append("must not be '..'")
    elif key.startswith(".."):
        found.append("must not start with '..'")
    return found


def label_causes(labels: dict[str, str], field: str) -> list[Cause]:
    causes = []
    for key, value in labels.items():
        causes += [wrong(field, key, message) for message in qualified_name(key)]
        causes += [wrong(field, value, message) for message in label_value(value)]
    return causes


def annotation_causes(annotations: dict[str, str], field: str) -> list[Cause]:
    causes = []
    for key in annotations:
        causes += [wrong(field, key, message) for message in qualified_name(key.lower())]
    size = sum(len(key) + len(value.encode()) for key, value in annotations.items())
    if size > 256 * 1024:
        causes.append(too_long(field, 256 * 1024))
    return causes


def name_causes(rule: NameRule, metadata: dict[str, Any], field: str) -> list[Cause]:
    """Causes for invalid names; `generateName` is checked as a prefix of a name."""
    causes = []
    prefix = metadata.get("generateName", "")
    if prefix:
        # What follows the prefix is alphanumeric, so a trailing dash is fine.
        masked = prefix[:-1] + "a" if prefix.endswith("-") else prefix
        causes += [wrong(f"{field}.generateName", prefix, message) for message in rule(masked)]
    name = metadata.get("name", "")
    causes += [wrong(f"{field}.name", name, message) for message in rule(name)]
    return causes
