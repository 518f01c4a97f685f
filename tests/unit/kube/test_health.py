from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from gpu_runtime.kube import ConfigError
from gpu_runtime.kube.health import health_app, serve


async def test_a_port_that_is_taken_is_one_clear_line() -> None:
    registry = CollectorRegistry()
    async with serve(health_app(dict, registry), "127.0.0.1", 0) as port:
        with pytest.raises(ConfigError, match=f"^cannot listen on 127.0.0.1:{port}: "):
            async with serve(health_app(dict, registry), "127.0.0.1", port):
                pass
