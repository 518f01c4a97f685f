"""Gives every namespace a default ServiceAccount and the CA certificate by which pods verify the API server."""

from __future__ import annotations

import ssl
from typing import Any

from gpu_runtime.api.meta.object import Key
from gpu_runtime.kube.builtin import CONFIG_MAPS
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.controller import Result
from gpu_runtime.kube.errors import AlreadyExists, Forbidden, NotFound
from gpu_runtime.kube.resource import Resource
from gpu_runtime.kube.store import Store
from gpu_runtime.local.controllers.namespaces import Namespace
from gpu_runtime.local.kinds.wire import Metadata

ACCOUNT, AUTHORITY = "default", "kube-root-ca.crt"
SERVICE_ACCOUNTS = Resource("", "v1", "ServiceAccount", "serviceaccounts", Metadata)
_ABOUT = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


def authority_of(client: Client) -> str:
    """The certificates that this client trusts, as PEM."""
    context = client.config.ssl
    found = context.get_ca_certs(binary_form=True) if context is not None else []
    return "".join(ssl.DER_cert_to_PEM_cert(each) for each in found)


class NamespaceDefaultsReconciler:
    """Puts both into each namespace, again when one is deleted."""

    def __init__(
        self, client: Client, namespaces: Store[Namespace], accounts: Store[Metadata], authorities: Store[Metadata]
    ) -> None:
        self._client = client
        self._namespaces = namespaces
        self._accounts = accounts
        self._authorities = authorities
        self._authority = authority_of(client)

    async def reconcile(self, key: Key) -> Result:
        namespace = self._namespaces.get(key)
        if namespace is None or namespace.metadata.deletionTimestamp is not None:
            return Result()
        if self._accounts.get(Key(key.name, ACCOUNT)) is None:
            await self._create(SERVICE_ACCOUNTS, {"metadata": {"name": ACCOUNT, "namespace": key.name}})
        if self._authorities.get(Key(key.name, AUTHORITY)) is None:
            about = {"kubernetes.io/description": _ABOUT}
            document = {
                "metadata": {"name": AUTHORITY, "namespace": key.name, "annotations": about},
                "data": {"ca.crt": self._authority},
            }
            await self._create(CONFIG_MAPS, document)
        return Result()

    async def _create(self, resource: Resource[Any], document: dict[str, Any]) -> None:
        try:
            await self._client.create(resource, document)
        except (AlreadyExists, NotFound, Forbidden):  # there already, or the namespace is on its way out
            return
