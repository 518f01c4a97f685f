"""A scripted fault proxy: stands between any process and an API server, does what the test says, and remembers it all.

    async with FaultProxy(api_server) as proxy:          # or the fixture `fault_proxy`
        client = Client(load_config(proxy.server.kubeconfig))
        process = await create_subprocess_exec(..., env={"KUBECONFIG": str(proxy.server.kubeconfig)})
        await proxy.kubectl("get", "pods")                # never a blocking call: the proxy runs in this event loop

Which calls: `writes("configmaps")`, `creates`, `updates`, `patches`, `deletes`, `gets`, `lists`, `watches`, `reads` and
`calls`, narrowed with `.named("x")`, `.in_namespace("ns")`, `.subresource("status")`, `.by("kubectl")`, `.where(test)`,
and composed with `&`, `|`, `~`.
Which of them: `nth=3`, `times=2`, `per_object=True`, `chance=0.5, seed=7`; none of these means all.

    proxy.on(writes("configmaps"), nth=3).drop_response()            # the server did it, the client never hears
    proxy.on(creates("pods"), times=1).drop_request()                # the server never saw it
    proxy.on(updates(), times=3, per_object=True).answer(409)        # without asking the server
    proxy.on(writes(), times=2).answer(429, headers={"Retry-After": "1"})
    proxy.on(creates("pods"), nth=1).rewrite_status(500)             # the server did it, the client is told otherwise
    proxy.on(deletes(), times=1).duplicate()                         # the server gets it twice
    proxy.on(lists("pods")).rewrite_list(lambda items: [*items, unreadable])

    held = proxy.on(patches("leases"), times=1).hold()               # hold("after"): done, but the answer waits
    await held.arrived()
    held.release()                                                   # or .drop(), .answer(409)

    late = proxy.on(patches("pods"), times=1).postpone(504)          # the client is told 504 now ...
    late.release()                                                   # ... the server does it now
    await late.finished()

Watches, the open ones and those to come:

    proxy.on(watches("pods"), times=1).cut()                         # RST; .end() for a clean end
    frozen = proxy.on(watches("pods")).freeze()                      # silent; freeze(discard=True) loses events
    frozen.thaw()
    proxy.on(watches("pods"), times=1).inject(expired())             # 410 as an ERROR event inside a 200 stream
    proxy.on(watches("pods")).drop_events(events("DELETED", name="x"))
    proxy.on(watches("pods")).repeat_events(events("MODIFIED"))
    (await proxy.stream(watches("pods"))).cut()                      # the open one, now

An old list served again (the client then watches from its resourceVersion, and the server replays from there):

    old = proxy.calls(lists("pods"))[-1].response                    # FaultProxy(..., keep_reads=True)
    proxy.on(lists("pods"), times=1).answer(200, old)

Death at an exact point, of a process or (with a callback) of a coroutine that plays one:

    kill = proxy.kill_at(3, process.pid, "after")                    # "before": never seen; "delivered": answered first
    kill = proxy.kill_at(3, task.cancel, "before")
    await kill.happened()
    kill.remove()                                                    # before a restart behind the same proxy

    for point in crash_points(proxy.writes()):                       # after a clean run: two points for each write
        proxy.kill_at(point.n, victim, point.when)

A process that is frozen whole, with all that it still has under way, and woken later:

    held, frozen = proxy.on(calls()).hold(), proxy.on(watches()).freeze()
    held.release(); frozen.thaw()

Afterwards: `proxy.count(writes("pods"))`; `proxy.writes()` and `proxy.calls(...)` as Exchange records, from
`mark = proxy.mark()` on with `since=mark`; `await proxy.seen(writes("pods"), times=2)`; `proxy.trace`;
`proxy.history.write_lines(path)`. Every fault is a handle: `await fault.happened()`, `fault.hits`, `fault.remove()`.
Proxies that share a History number their calls together.

Not forwarded: connection upgrades (kubectl exec, attach, port-forward), which are answered 501.
"""

from equipment.fault_proxy.call import Call
from equipment.fault_proxy.crash_points import CrashPoint, crash_points
from equipment.fault_proxy.faults import Fault, Frozen, Held
from equipment.fault_proxy.history import Exchange, History
from equipment.fault_proxy.kill import Kill
from equipment.fault_proxy.matching import (
    Event,
    Match,
    calls,
    creates,
    deletes,
    events,
    gets,
    lists,
    patches,
    reads,
    updates,
    watches,
    writes,
)
from equipment.fault_proxy.proxy import FaultProxy
from equipment.fault_proxy.status import bookmark, error_event, expired, failure
from equipment.fault_proxy.stream import WatchStream

__all__ = [
    "Call",
    "CrashPoint",
    "Event",
    "Exchange",
    "Fault",
    "FaultProxy",
    "Frozen",
    "Held",
    "History",
    "Kill",
    "Match",
    "WatchStream",
    "bookmark",
    "calls",
    "crash_points",
    "creates",
    "deletes",
    "error_event",
    "events",
    "expired",
    "failure",
    "gets",
    "lists",
    "patches",
    "reads",
    "updates",
    "watches",
    "writes",
]
