"""Bodies that are too large for one message: chunks in a stream of their own, written before what refers to them."""

from __future__ import annotations

from hashlib import sha256
from uuid import uuid4

from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.publishing import last_direct, publish_once
from gpu_runtime.serverless.broker.streams import BODIES
from gpu_runtime.serverless.messages import Body, BodyRef
from gpu_runtime.serverless.subjects import Run

CHUNK_BYTES = 512 * 1024
INLINE_BYTES = 512 * 1024
"""A body up to this size travels in its message. Base64 adds a third, and a message may have 1 MiB."""


class BodyGone(Exception):
    """A large body cannot be read any more: its chunks are too old, or not the ones that were written."""


async def store(broker: Broker, run: Run, data: bytes, *, is_json: bool) -> Body:
    """The body, inline if it is small. Chunks that nothing refers to later go with the age limit of their stream."""
    if len(data) <= INLINE_BYTES:
        return Body.of(data, is_json=is_json)
    key = uuid4().hex
    chunks = [data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES)]
    for number, chunk in enumerate(chunks):
        # The key is new, so a chunk that is there already is our own, stored by a publish that was not answered.
        await publish_once(broker, f"{subjects.body(run, key)}.{number}", chunk)
    return Body(ref=BodyRef(key=key, size=len(data), sha256=sha256(data).hexdigest(), chunks=len(chunks)))


async def load(broker: Broker, run: Run, body: Body) -> bytes:
    """The bytes of a body. BodyGone when a large one is no longer complete."""
    if body.ref is None:
        return body.inline()
    parts = []
    for number in range(body.ref.chunks):
        stored = await last_direct(broker, BODIES, f"{subjects.body(run, body.ref.key)}.{number}")
        if stored is None:
            raise BodyGone(f"a part of the body of {run} is no longer kept")
        parts.append(stored.data)
    data = b"".join(parts)
    if sha256(data).hexdigest() != body.ref.sha256:
        raise BodyGone(f"the body of {run} is not the one that was stored")
    return data
