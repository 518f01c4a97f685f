"""A finalizer is on the object before the first side effect and goes after the cleanup, whatever happens between."""

from __future__ import annotations

import pytest

from equipment.fault_proxy import FaultProxy, patches, writes
from equipment.mutation import mutant
from equipment.world import MakeConfigMap
from gpu_runtime.kube import Client, Conflict, Finalizer, NotFound, OwnWrites, Store, Unreachable
from gpu_runtime.kube.builtin import CONFIG_MAPS, ConfigMap

OURS, THEIRS = "example.org/ours", "example.org/theirs"


@pytest.fixture
async def thing(client: Client, config_map: MakeConfigMap) -> ConfigMap:
    return await client.create(CONFIG_MAPS, config_map("thing"))


def a_finalizer(client: Client) -> Finalizer[ConfigMap]:
    return Finalizer(OURS, CONFIG_MAPS, OwnWrites(Store[ConfigMap]()), client)


async def let_go(client: Client, thing: ConfigMap) -> None:
    """What is left on the object at the end of a test must not keep its namespace."""
    await client.patch(CONFIG_MAPS, thing.metadata.key, {"metadata": {"finalizers": None}})


async def deleted(client: Client, thing: ConfigMap) -> ConfigMap:
    """The object as it is after a person deleted it."""
    await client.delete(CONFIG_MAPS, thing.metadata.key)
    return await client.get(CONFIG_MAPS, thing.metadata.key)


class Cleanup:
    """Counts its runs; done after the first `unfinished` of them."""

    def __init__(self, unfinished: int = 0) -> None:
        self.unfinished = unfinished
        self.runs = 0

    async def __call__(self, thing: ConfigMap) -> bool:
        self.runs += 1
        return self.runs > self.unfinished


async def test_it_is_added_once_beside_those_of_others(
    client: Client, proxied: Client, fault_proxy: FaultProxy, thing: ConfigMap
) -> None:
    theirs = await client.patch(CONFIG_MAPS, thing.metadata.key, {"metadata": {"finalizers": [THEIRS]}})
    finalizer = a_finalizer(proxied)
    held = await finalizer.add(theirs)
    assert held.metadata.finalizers == [THEIRS, OURS]
    assert finalizer.cache.get(thing.metadata.key) == held, "known before the watch shows it"
    assert await finalizer.add(held) == held
    assert fault_proxy.count(writes()) == 1
    await let_go(client, thing)


@mutant(
    "kube/finalizer.py",
    '{**identity(meta), "finalizers": [*meta.finalizers, self.name]}',
    '{"finalizers": [self.name]}',
)
async def test_it_is_not_added_by_a_replica_whose_cache_is_behind(client: Client, thing: ConfigMap) -> None:
    await client.patch(CONFIG_MAPS, thing.metadata.key, {"metadata": {"finalizers": [THEIRS]}})
    with pytest.raises(Conflict):
        await a_finalizer(client).add(thing)
    assert (await client.get(CONFIG_MAPS, thing.metadata.key)).metadata.finalizers == [THEIRS]
    await let_go(client, thing)


@mutant(
    "kube/finalizer.py",
    "        if not await cleanup(obj):\n            return False\n",
    "        await cleanup(obj)\n",
)
@mutant("kube/finalizer.py", "        if not await cleanup(obj):\n            return False\n", "")
async def test_the_object_stays_until_the_cleanup_is_done(client: Client, thing: ConfigMap) -> None:
    finalizer, cleanup = a_finalizer(client), Cleanup(unfinished=2)
    leaving = await deleted(client, await finalizer.add(thing))
    assert [await finalizer.finish(leaving, cleanup) for _ in range(2)] == [False, False]
    assert await client.get(CONFIG_MAPS, thing.metadata.key) == leaving
    assert await finalizer.finish(leaving, cleanup)
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, thing.metadata.key)
    assert cleanup.runs == 3


async def test_finalizers_of_others_stay(client: Client, thing: ConfigMap) -> None:
    finalizer = a_finalizer(client)
    theirs = await client.patch(CONFIG_MAPS, thing.metadata.key, {"metadata": {"finalizers": [THEIRS]}})
    leaving = await deleted(client, await finalizer.add(theirs))
    assert await finalizer.finish(leaving, Cleanup())
    left = await client.get(CONFIG_MAPS, thing.metadata.key)
    assert left.metadata.finalizers == [THEIRS]
    known = finalizer.cache.get(thing.metadata.key)
    assert known == left, "a second reconcile knows that its part is done"
    await let_go(client, thing)


@mutant("kube/finalizer.py", "        if self.name not in obj.metadata.finalizers:\n            return True\n", "")
async def test_an_object_that_never_got_it_is_not_cleaned_up(client: Client, thing: ConfigMap) -> None:
    theirs = await client.patch(CONFIG_MAPS, thing.metadata.key, {"metadata": {"finalizers": [THEIRS]}})
    cleanup = Cleanup()
    assert await a_finalizer(client).finish(await deleted(client, theirs), cleanup)
    assert cleanup.runs == 0
    await let_go(client, thing)


@mutant(
    "kube/finalizer.py", "    except NotFound:\n        return None\n", "    except ValueError:\n        return None\n"
)
async def test_a_removal_whose_answer_was_lost_is_repeated_without_harm(
    client: Client, proxied: Client, fault_proxy: FaultProxy, thing: ConfigMap
) -> None:
    finalizer, cleanup = a_finalizer(proxied), Cleanup()
    leaving = await deleted(client, await finalizer.add(thing))
    fault_proxy.on(patches("configmaps"), times=1).drop_response()
    with pytest.raises(Unreachable):
        await finalizer.finish(leaving, cleanup)
    assert await finalizer.finish(leaving, cleanup)
    assert cleanup.runs == 2


@mutant("kube/finalizer.py", '{**identity(meta), "finalizers": kept or None}', '{"finalizers": kept or None}')
async def test_a_replica_that_is_late_never_takes_it_off_a_successor_of_the_same_name(
    client: Client, thing: ConfigMap, config_map: MakeConfigMap
) -> None:
    finalizer = a_finalizer(client)
    leaving = await deleted(client, await finalizer.add(thing))
    await finalizer.finish(leaving, Cleanup())
    successor = await finalizer.add(await client.create(CONFIG_MAPS, config_map("thing")))
    with pytest.raises(Conflict):
        await finalizer.finish(leaving, Cleanup())
    assert await client.get(CONFIG_MAPS, thing.metadata.key) == successor
    await let_go(client, thing)


async def test_an_object_that_changed_during_the_cleanup_is_cleaned_up_again(client: Client, thing: ConfigMap) -> None:
    finalizer = a_finalizer(client)
    leaving = await deleted(client, await finalizer.add(thing))

    async def meanwhile(thing: ConfigMap) -> bool:
        await client.patch(CONFIG_MAPS, thing.metadata.key, {"data": {"attached": "yes"}})
        return True

    with pytest.raises(Conflict):
        await finalizer.finish(leaving, meanwhile)
    assert (await client.get(CONFIG_MAPS, thing.metadata.key)).metadata.finalizers == [OURS]
    await let_go(client, thing)
