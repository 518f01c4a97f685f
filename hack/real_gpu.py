"""On a machine with an NVIDIA GPU: what its Node says, and what a pod with a GPU and one without see of it.

PYTHONPATH=hack python hack/real_gpu.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from realkube.api import Access

PODS = "/api/v1/namespaces/default/pods"
LOOK = "echo CUDA=[$CUDA_VISIBLE_DEVICES] NVIDIA=[$NVIDIA_VISIBLE_DEVICES]; nvidia-smi -L"
WAIT_SECONDS = 120.0


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "gpu_runtime.cli", "local-cluster", "--data-dir", str(folder / "data")]
        with (folder / "log").open("w") as log:
            cluster = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            look(folder)
        finally:
            cluster.terminate()
            cluster.wait(WAIT_SECONDS)
            print((folder / "log").read_text())
    return 0


def look(folder: Path) -> None:
    kubeconfig = folder / "data" / "kubeconfig"
    until(kubeconfig.exists)
    admin = Access.of_kubeconfig(kubeconfig, folder)
    until(admin.ready)
    node = until(lambda: next((each for each in items(admin, "/api/v1/nodes") if each["status"].get("capacity")), None))
    labels = {key: value for key, value in node["metadata"]["labels"].items() if key.startswith("nvidia.com/")}
    gpus = {key: value for key, value in node["status"]["capacity"].items() if key.startswith("nvidia.com/")}
    print("NODE", node["metadata"]["name"], json.dumps(labels), json.dumps(gpus))
    for name, gpu in (("with-gpu", 1), ("without-gpu", 0)):
        print("POD", name, ended(admin, name, gpu))
        print(admin.request("GET", f"{PODS}/{name}/log").body)


def ended(admin: Access, name: str, gpu: int) -> str:
    """Runs a pod to its end; the phase that it ended in."""
    limits = {"limits": {"nvidia.com/gpu": str(gpu)}} if gpu else {}
    container = {"name": "look", "image": "busybox:1.36", "command": ["sh", "-c", LOOK], "resources": limits}
    spec = {"restartPolicy": "Never", "containers": [container]}
    made = admin.request("POST", PODS, {"metadata": {"name": name}, "spec": spec})
    assert made.status == 201, made

    def phase() -> str | None:
        status = admin.request("GET", f"{PODS}/{name}").body["status"]
        return status["phase"] if status["phase"] in ("Succeeded", "Failed") else None

    return str(until(phase))


def items(admin: Access, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = admin.request("GET", path).body["items"]
    return found


def until(probe: Any) -> Any:
    end = time.monotonic() + WAIT_SECONDS
    while not (found := probe()):
        if time.monotonic() > end:
            raise TimeoutError("nothing came in time")
        time.sleep(0.1)
    return found


if __name__ == "__main__":
    sys.exit(main())
