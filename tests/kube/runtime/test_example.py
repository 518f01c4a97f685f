"""The sample controller of examples/, as a process, as its docstring says."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from equipment.servers import ApiServer
from equipment.waiting import eventually
from gpu_runtime.api.meta.object import Key
from gpu_runtime.kube import Client, NotFound
from gpu_runtime.kube.builtin import CONFIG_MAPS, NAMESPACES

EXAMPLE = Path(__file__).parents[3] / "examples" / "namespace_notice.py"


async def test_the_sample_controller_keeps_its_notice_and_is_short(
    api_server: ApiServer, client: Client, namespace: str
) -> None:
    assert len(EXAMPLE.read_text().splitlines()) < 60
    notice = Key(namespace, "notice")

    async def says(want: str | None) -> bool:
        try:
            return (await client.get(CONFIG_MAPS, notice)).data.get("text") == want
        except NotFound:
            return want is None

    process = await asyncio.create_subprocess_exec(
        sys.executable, str(EXAMPLE), env={**os.environ, "KUBECONFIG": str(api_server.kubeconfig)}
    )
    try:
        await client.patch(NAMESPACES, Key("", namespace), {"metadata": {"labels": {"notice": "hello"}}})
        await eventually(lambda: says("hello"))
        await client.patch(CONFIG_MAPS, notice, {"data": {"text": "edited"}})
        await eventually(lambda: says("hello"))
        await client.delete(CONFIG_MAPS, notice)
        await eventually(lambda: says("hello"))
        await client.patch(NAMESPACES, Key("", namespace), {"metadata": {"labels": {"notice": None}}})
        await eventually(lambda: says(None))
    finally:
        process.terminate()
        assert await process.wait() == 0


async def test_a_process_without_a_cluster_says_so_in_one_line(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(EXAMPLE),
        env={**os.environ, "KUBECONFIG": str(tmp_path / "missing")},
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    assert process.returncode == 2
    assert said.decode() == f"Error: cannot read the kubeconfig {tmp_path / 'missing'}: No such file or directory\n"
