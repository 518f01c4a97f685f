"""Content negotiation: the form of answer that a client accepts."""

from __future__ import annotations

from gpu_runtime.local.apiserver.errors import not_acceptable

PLAIN, TABLE, PARTIAL = "plain", "table", "partial"
_FORMS = {"Table": TABLE, "PartialObjectMetadata": PARTIAL, "PartialObjectMetadataList": PARTIAL}


def wants_yaml(accept: str) -> bool:
    """Whether YAML is the first supported form that the client names."""
    for choice in accept.split(","):
        media = choice.split(";")[0].strip()
        if media in ("application/json", "application/*", "*/*"):
            return False
        if media == "application/yaml":
            return True
    return False


def wanted_form(accept: str) -> str:
    """The first supported form of the Accept header; 406 when there is none."""
    if not accept:
        return PLAIN
    for choice in accept.split(","):
        media, *pairs = [part.strip() for part in choice.split(";")]
        if media not in ("application/json", "application/yaml", "application/*", "*/*"):
            continue
        parameters = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        form = parameters.get("as", "")
        if not form:
            return PLAIN
        if form in _FORMS and parameters.get("g") == "meta.k8s.io" and parameters.get("v") == "v1":
            return _FORMS[form]
    raise not_acceptable("application/json")
