"""The files of storages behind the proxy."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from equipment.mutation import mutant
from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.annotations import ATTACHED_TO
from gpu_runtime.api.v1alpha1.attachment import Attachment, attached_to
from gpu_runtime.proxy.cluster_views import EndpointSlice, StorageView
from gpu_runtime.proxy.errors import FilesDisabled, FilesNotReady, FilesUnreachable, Refused, StorageNotFound
from gpu_runtime.proxy.targets import Target
from unit.files.test_names import NAMES
from unit.files.world import SECRET, a_volume, fetch, serving
from unit.proxy.world import STORAGE, RawUnit, a_slice, a_storage, proxy_to, storage_targets

DATA = Key("runtime-instance", "data")
HELD = attached_to(Attachment(unit="demo", uid="u"))[ATTACHED_TO]
ENDPOINT = a_slice("10.0.0.9", 5000, service="files")


def test_files_are_reached_at_the_endpoint_of_the_accessor() -> None:
    found = storage_targets([a_storage()], [ENDPOINT, a_slice("10.0.0.1", service="data")]).find(DATA)
    host = "files.runtime-instance.svc.cluster.local:5000"
    assert found == Target("http", "10.0.0.9", 5000, host, "accessor of the GPU storage", FilesUnreachable)


@pytest.mark.parametrize(
    ("storage", "slices", "error", "says"),
    [
        (a_storage("other"), [ENDPOINT], StorageNotFound, "GPU storage data does not exist in namespace"),
        (a_storage(enabled=False), [ENDPOINT], FilesDisabled, "set accessor.enabled"),
        (a_storage(holder=HELD), [ENDPOINT], FilesNotReady, "not served while unit demo holds it"),
        (a_storage(holder="no JSON"), [ENDPOINT], FilesNotReady, "unreadable"),
        (a_storage(), [], FilesNotReady, "not served yet: StorageAccessorPending: its pod is being created"),
        (a_storage(service=""), [ENDPOINT], FilesNotReady, "not served yet"),
        (a_storage(), [a_slice(service="files", ready=False)], FilesNotReady, "not served yet"),
    ],
    ids=["unknown", "disabled", "held", "held by what cannot be read", "no endpoint", "no service", "not ready"],
)
@mutant("proxy/storages.py", "(holder := attachment_of(storage.metadata)) is not None", "False and (holder := 1)")
def test_files_that_are_not_served_say_why(
    storage: StorageView, slices: list[EndpointSlice], error: type[Refused], says: str
) -> None:
    with pytest.raises(error, match=says):
        storage_targets([storage], slices).find(DATA)


@pytest.mark.parametrize(
    ("storage", "status", "code"),
    [
        (a_storage("other"), 404, b"gpu_storage_not_found"),
        (a_storage(enabled=False), 503, b"storage_accessor_disabled"),
        (a_storage(holder=HELD), 503, b"storage_accessor_not_ready"),
    ],
)
async def test_a_refusal_has_its_status_and_code(storage: StorageView, status: int, code: bytes) -> None:
    async with RawUnit().serving() as accessor, proxy_to(accessor.port, storage=storage) as port:
        answer = await fetch(port, f"{STORAGE}/")
    assert (answer.status, code in answer.body) == (status, True)
    assert accessor.received == []


async def test_an_accessor_that_does_not_answer_is_unreachable() -> None:
    async with RawUnit().serving() as accessor:
        gone = accessor.port
    async with proxy_to(gone) as port:
        answer = await fetch(port, f"{STORAGE}/")
    assert answer.status == 502
    assert b"storage_accessor_unreachable" in answer.body


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_files_can_only_be_read(method: str) -> None:
    async with RawUnit().serving() as accessor, proxy_to(accessor.port) as port:
        answer = await fetch(port, f"{STORAGE}/", method)
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
    assert accessor.received == []


@pytest.mark.parametrize(
    ("mode", "destination", "status"),
    [
        ("navigate", "document", 200),
        ("cors", "empty", 403),
        ("same-origin", "empty", 403),
        ("no-cors", "image", 403),
        ("no-cors", "script", 403),
        ("navigate", "iframe", 403),
        ("navigate", "embed", 403),
    ],
)
@mutant("proxy/guard.py", "if request.headers.get(header, value) != value:", "if False:")
async def test_a_page_of_a_unit_cannot_read_files_with_its_visitors_browser(
    mode: str, destination: str, status: int
) -> None:
    async with RawUnit().serving() as accessor, proxy_to(accessor.port) as port:
        headers = {"Sec_Fetch_Mode": mode, "Sec_Fetch_Dest": destination, "Sec_Fetch_Site": "same-origin"}
        answer = await fetch(port, f"{STORAGE}/", **headers)
        assert answer.status == status
        assert len(accessor.received) == (1 if status == 200 else 0)


@pytest.mark.parametrize(
    "path",
    [
        *("/storages", "/storages/", "/storages/runtime-instance/", "/storage/runtime-instance/data/"),
        *(
            "/storages/runtime-instance/da%74a/",
            "/storages/../runtime-instance/data/",
            "/storages/runtime-instance/DATA/",
        ),
        *("/storages/runtime-instance/data%2f/", "/storages//data/", "/storages/other/data/"),
    ],
)
async def test_a_path_that_names_no_storage_reaches_nobody(path: str) -> None:
    async with RawUnit().serving() as accessor, proxy_to(accessor.port) as port:
        answer = await fetch(port, path)
    assert answer.status == 404
    assert accessor.received == []


async def test_files_are_listed_downloaded_and_archived_through_the_proxy(tmp_path: Path) -> None:
    volume = a_volume(tmp_path)
    async with serving(volume, prefix=STORAGE) as accessor, proxy_to(accessor) as port:
        turned = await fetch(port, STORAGE)
        assert (turned.status, turned.headers["location"]) == (308, f"{STORAGE}/")
        page = await fetch(port, f"{STORAGE}/")
        assert b'href="./notes.txt"' in page.body
        assert page.headers["content-security-policy"].startswith("sandbox allow-downloads;")
        assert (await fetch(port, f"{STORAGE}/models")).headers["location"] == "./models/"
        part = await fetch(port, f"{STORAGE}/notes.txt", Range="bytes=2-3")
        assert (part.status, part.body, part.headers["content-range"]) == (206, b"si", "bytes 2-3/7")
        known = await fetch(port, f"{STORAGE}/notes.txt", If_None_Match=part.headers["etag"])
        assert (known.status, known.body) == (304, b"")
        head = await fetch(port, f"{STORAGE}/notes.txt", "HEAD")
        assert (head.status, head.headers["content-length"], head.body) == (200, "7", b"")
        archive = await fetch(port, f"{STORAGE}/models/?archive=tar")
        with tarfile.open(fileobj=io.BytesIO(archive.body)) as tar:
            assert "models/readme.md" in tar.getnames()


@mutant("proxy/app.py", 'if found["kind"] == "units" and is_websocket(request):', "if is_websocket(request):")
async def test_files_have_no_websocket(tmp_path: Path) -> None:
    key = "dGhlIHNhbXBsZSBub25jZQ=="
    asked = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec_WebSocket_Version": "13", "Sec_WebSocket_Key": key}
    async with serving(a_volume(tmp_path), STORAGE) as served, proxy_to(served) as port:
        answer = await fetch(port, f"{STORAGE}/notes.txt", **asked)
    assert (answer.status, answer.body) == (200, b"inside\n")


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
async def test_an_odd_name_passes_through_the_proxy(tmp_path: Path, name: bytes) -> None:
    (tmp_path / os.fsdecode(name)).write_bytes(b"content of it")
    encoded = "".join(f"%{byte:02x}" for byte in name)
    async with serving(tmp_path, prefix=STORAGE) as accessor, proxy_to(accessor) as port:
        answer = await fetch(port, f"{STORAGE}/{encoded}")
    assert (answer.status, answer.body) == (200, b"content of it")


@pytest.mark.parametrize(
    "path",
    [
        *("/../secret/passwd", "/%2e%2e/secret/passwd", "/%252e%252e/secret/passwd", "/..%2fsecret%2fpasswd"),
        *("/..\\secret\\passwd", "/notes.txt%00", "//etc/passwd", "/../../runtime-instance/data/notes.txt"),
    ],
)
async def test_a_path_that_leads_out_is_refused_through_the_proxy(tmp_path: Path, path: str) -> None:
    async with serving(a_volume(tmp_path), prefix=STORAGE) as accessor, proxy_to(accessor) as port:
        answer = await fetch(port, STORAGE + path)
    assert answer.status in {400, 404}
    assert SECRET not in answer.body
