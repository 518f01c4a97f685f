"""Every named case, by subject: one file a subject."""

from __future__ import annotations

from kube.differential.call import Case
from kube.differential.cases import (
    addresses,
    admission,
    create,
    custom,
    definitions,
    delete,
    formats,
    judging,
    lists,
    metadata,
    options,
    ours,
    patches,
    pods,
    requests,
    storage,
    subresources,
    types,
    update,
    versions,
    warnings,
    watches,
    workloads,
)

SUBJECTS: dict[str, list[Case]] = {
    "create": create.CASES,
    "metadata": metadata.CASES,
    "update": update.CASES,
    "patches": patches.CASES,
    "delete": delete.CASES,
    "lists": lists.CASES,
    "watches": watches.CASES,
    "subresources": subresources.CASES,
    "options": options.CASES,
    "pods": pods.CASES,
    "workloads": workloads.CASES,
    "admission": admission.CASES,
    "addresses": addresses.CASES,
    "storage": storage.CASES,
    "judging": judging.CASES,
    "custom": custom.CASES,
    "types": types.CASES,
    "definitions": definitions.CASES,
    "versions": versions.CASES,
    "formats": formats.CASES,
    "warnings": warnings.CASES,
    "requests": requests.CASES,
    "ours": ours.CASES,
}
ALL = [(subject, case) for subject, cases in SUBJECTS.items() for case in cases]
