"""The worker: the sidecar of a serverless unit. It runs the invocations of one function."""

from __future__ import annotations

from gpu_runtime.config import WorkerSettings
from gpu_runtime.kube.process import ProcessContext
from gpu_runtime.serverless.worker.worker import Worker


async def main(settings: WorkerSettings, process: ProcessContext) -> None:
    worker = Worker(settings)
    process.health.add(worker.checks, worker.metrics)
    process.health.waits["/drained"] = worker.drained  # the unit's other container ends after that
    await worker.run(process.stop)
