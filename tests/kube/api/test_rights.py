"""A client without rights, on a server that judges them: the embedded one has one administrator and refuses nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from equipment.servers import ApiServer
from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.kube import Client, Forbidden, Query, load_config
from gpu_runtime.kube.builtin import CONFIG_MAPS, ConfigMap


async def test_what_an_account_may_not_do_is_forbidden_in_the_words_of_the_server(
    api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    account = api_server.as_service_account(namespace, "nobody", tmp_path)
    refused = (
        rf'configmaps.* is forbidden: User "system:serviceaccount:{namespace}:nobody" cannot {{verb}} '
        rf'resource "configmaps" in API group "" in the namespace "{namespace}"'
    )
    wanted = ConfigMap(metadata=ObjectMeta(name="a", namespace=namespace), data={"text": "x"})
    async with Client(load_config(account.kubeconfig)) as client:
        with pytest.raises(Forbidden, match=rf"^get configmaps {namespace}/a: {refused.format(verb='get')}"):
            await client.get(CONFIG_MAPS, Key(namespace, "a"))
        with pytest.raises(Forbidden, match=rf"^list configmaps in {namespace}: {refused.format(verb='list')}"):
            await client.list(Query(CONFIG_MAPS, namespace))
        with pytest.raises(Forbidden, match=rf"^create configmaps {namespace}/a: {refused.format(verb='create')}"):
            await client.create(CONFIG_MAPS, wanted)
        with pytest.raises(Forbidden, match=rf"^watch configmaps in {namespace}: {refused.format(verb='watch')}"):
            await anext(client.watch(Query(CONFIG_MAPS, namespace), resource_version="0", timeout=5, silence=10))
