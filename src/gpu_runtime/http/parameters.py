"""Parameters that several routes share."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from gpu_runtime.api.v1alpha1.fields import ObjectName
from gpu_runtime.rest.selector import PATTERN, Selector
from gpu_runtime.service.feed import Wanted
from gpu_runtime.service.listing import PAGE_SIZE, Filter

NamespaceName = Annotated[ObjectName, Meta(min_length=1)]
Limit = Annotated[int, Meta(ge=1, le=500, description="Objects per page.")]
Continue = Annotated[
    str,
    Meta(
        max_length=253,
        pattern="^[a-z0-9.-]*$",
        description="The `continue` value of the previous page.",
        extra={"hint": "the `continue` value of the previous page"},
    ),
]
PageToken = Annotated[str, Meta(max_length=4096, description="The `continue` value of the previous page.")]
LabelSelector = Annotated[
    str,
    Meta(
        max_length=1024,
        pattern=PATTERN,
        description="Label selector, such as a=b,c!=d,e in (f,g),h,!i.",
        extra={"hint": "a label selector such as a=b,c!=d,e in (f,g),h,!i"},
    ),
]
InstanceNamespace = Annotated[
    NamespaceName | None, Meta(description="Namespace of the objects. Default: runtime-instance.")
]
Watch = Annotated[bool, Meta(description="Continue with a server-sent event for each change.")]
Since = Annotated[
    str,
    Meta(
        max_length=64,
        pattern="^[0-9]*$",
        description="With watch: only changes after this version. The header Last-Event-ID does the same.",
        extra={"hint": "the id of an earlier event"},
    ),
]
WatchSeconds = Annotated[int, Meta(ge=1, le=3600, description="With watch: seconds until the server ends the stream.")]


class Named(msgspec.Struct, frozen=True):
    name: Annotated[ObjectName, Meta(min_length=1, description="Name of the object.")]


class InNamespace(msgspec.Struct, frozen=True):
    namespace: Annotated[NamespaceName | None, Meta(description="Namespace of the object, if not the default one.")] = (
        None
    )


class ListOf(msgspec.Struct, frozen=True):
    namespace: Annotated[
        NamespaceName | None, Meta(description="Namespace of the objects, if not the default one.")
    ] = None
    labelSelector: LabelSelector = ""
    phase: Annotated[str, Meta(max_length=64, description="Only objects of this phase, such as Ready.")] = ""
    limit: Limit = PAGE_SIZE
    token: Continue = msgspec.field(default="", name="continue")

    @property
    def filter(self) -> Filter:
        return Filter(Selector.parse(self.labelSelector), self.phase, self.limit, self.token)


class GetOrWatch(msgspec.Struct, frozen=True):
    namespace: InstanceNamespace = None
    watch: Watch = False
    resourceVersion: Since = ""
    timeoutSeconds: WatchSeconds = 300


class ListOrWatch(msgspec.Struct, frozen=True):
    namespace: InstanceNamespace = None
    labelSelector: LabelSelector = ""
    phase: Annotated[
        str,
        Meta(
            max_length=64,
            description="Only objects of this phase, such as Ready. With watch, one that leaves it is sent as "
            "`deleted`.",
        ),
    ] = ""
    limit: Limit = PAGE_SIZE
    token: Continue = msgspec.field(default="", name="continue")
    watch: Watch = False
    resourceVersion: Since = ""
    timeoutSeconds: WatchSeconds = 300

    @property
    def filter(self) -> Filter:
        return Filter(Selector.parse(self.labelSelector), self.phase, self.limit, self.token)

    def wanted(self, namespace: str) -> Wanted:
        return Wanted(namespace, labels=Selector.parse(self.labelSelector), phase=self.phase)


class Paged(msgspec.Struct, frozen=True):
    limit: Limit = PAGE_SIZE
    token: PageToken = msgspec.field(default="", name="continue")
