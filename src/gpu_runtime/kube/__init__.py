"""A level-triggered controller runtime on aiohttp and msgspec. Knows nothing of GPUs.

A controller is a function from a key to a `Result` that reads stores, computes what should be with pure functions and
writes the difference through `Children`. A `Manager` keeps the stores filled, elects a leader and runs it.
"""

from gpu_runtime.kube.child_writer import ChildWriter
from gpu_runtime.kube.children import Change, Children, Written
from gpu_runtime.kube.client import Client, Patch, Query
from gpu_runtime.kube.config import ClusterConfig, load_config
from gpu_runtime.kube.controller import Controller, Result, Source, mapped, owned, owned_by_annotation, primary
from gpu_runtime.kube.errors import (
    AlreadyExists,
    ApiError,
    ConfigError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NameConflict,
    NotFound,
    OwnerGone,
    RetryAfter,
    ServerError,
    Terminal,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    Unreadable,
)
from gpu_runtime.kube.events import Recorder
from gpu_runtime.kube.expectations import Expectations
from gpu_runtime.kube.finalizer import Finalizer
from gpu_runtime.kube.lease import Election, Terms
from gpu_runtime.kube.manager import Manager
from gpu_runtime.kube.own_writes import OwnWrites
from gpu_runtime.kube.ownership import ByAnnotation
from gpu_runtime.kube.process import ProcessContext, run_process, stop_on_signal
from gpu_runtime.kube.queue import Queue
from gpu_runtime.kube.reflector import Reflector
from gpu_runtime.kube.resource import Resource
from gpu_runtime.kube.status_writer import StatusWriter
from gpu_runtime.kube.store import Delta, Store, by_owner

__all__ = [
    "AlreadyExists",
    "ApiError",
    "ByAnnotation",
    "Change",
    "ChildWriter",
    "Children",
    "Client",
    "ClusterConfig",
    "ConfigError",
    "Conflict",
    "Controller",
    "Delta",
    "Election",
    "Expectations",
    "Finalizer",
    "Forbidden",
    "Gone",
    "Invalid",
    "KubeError",
    "Manager",
    "NameConflict",
    "NotFound",
    "OwnWrites",
    "OwnerGone",
    "Patch",
    "ProcessContext",
    "Query",
    "Queue",
    "Recorder",
    "Reflector",
    "Resource",
    "Result",
    "RetryAfter",
    "ServerError",
    "Source",
    "StatusWriter",
    "Store",
    "Terminal",
    "Terms",
    "TooManyRequests",
    "Unauthorized",
    "Unreachable",
    "Unreadable",
    "Written",
    "by_owner",
    "load_config",
    "mapped",
    "owned",
    "owned_by_annotation",
    "primary",
    "run_process",
    "stop_on_signal",
]
