"""What both databases of results guarantee. `tests/kube/results` runs the same on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from equipment.mutation import mutant
from equipment.results import ECHO, NOON, ResultDatabase, a_run, an_acceptance, an_end, at, finish
from gpu_runtime.serverless.messages import Body, BodyRef
from gpu_runtime.serverless.results.base import (
    Batch,
    DeadLetterQuery,
    InvalidPageToken,
    ResultStore,
    RunQuery,
    StoreUnavailable,
)
from gpu_runtime.serverless.results.records import DeadLetter
from gpu_runtime.serverless.subjects import Function, Run

STATEMENTS = "serverless/results/statements.py"
LARGE = Body(ref=BodyRef(key="k1", size=3, sha256="0" * 64, chunks=1))


@pytest.fixture
async def store(database: ResultDatabase) -> AsyncIterator[ResultStore]:
    async with database.store() as opened:
        yield opened


def a_dead_letter(letter: str = "malformed.RESULTS.7", content: bytes = b"{", failed_at: float = 0.0) -> DeadLetter:
    return DeadLetter(
        letter,
        "malformed",
        at(failed_at),
        "malformed_message",
        "it is not JSON",
        1,
        subject="res.a.b.c.1",
        stream="RESULTS",
        sequence=7,
        content=content,
    )


async def test_a_run_is_read_as_it_was_accepted_and_as_it_ended(store: ResultStore) -> None:
    acceptance = an_acceptance(a_run(), attributes={"k": "v"}, headers={"h": "1"})
    end = an_end(a_run(), error="e", headers={"a": "b"}, startedAt=at(1), ended_at=at(2))

    await store.save(Batch([acceptance], [end]))

    found = await store.get(a_run())
    assert found is not None
    assert (found.acceptance, found.end, found.state) == (acceptance, end.message, "succeeded")
    assert await store.get(a_run(number=2)) is None
    assert await store.get(a_run("inv-2")) is None


async def test_the_order_of_acceptance_and_end_does_not_matter(store: ResultStore) -> None:
    await store.save(Batch(ends=[an_end(a_run())]))
    before = await store.get(a_run())
    await store.save(Batch([an_acceptance(a_run())]))
    after = await store.get(a_run())

    assert before is not None
    assert (before.acceptance, before.end) == (None, an_end(a_run()).message)
    assert after is not None
    assert (after.acceptance, after.end) == (an_acceptance(a_run()), an_end(a_run()).message)


async def test_a_run_without_end_is_queued(store: ResultStore) -> None:
    await store.save(Batch([an_acceptance(a_run())]))

    found = await store.get(a_run())

    assert found is not None
    assert (found.state, found.end) == ("queued", None)


@mutant(STATEMENTS, "WHERE runs.ended_at IS NULL", "WHERE 1 = 1")
async def test_the_first_end_stays(store: ResultStore) -> None:
    await store.save(Batch(ends=[an_end(a_run(), "succeeded")]))
    await store.save(Batch(ends=[an_end(a_run(), "dead_lettered", error="late")]))

    found = await store.get(a_run())
    assert found is not None
    assert found.end == an_end(a_run(), "succeeded").message
    assert (await store.list_dead_letters(DeadLetterQuery())).items == []


@mutant(STATEMENTS, "WHERE runs.invocation IS NULL", "WHERE 1 = 1")
async def test_the_first_acceptance_stays(store: ResultStore) -> None:
    first = an_acceptance(a_run())
    await store.save(Batch([first]))
    await store.save(Batch([an_acceptance(a_run(), at(5), attributes={"other": "one"})]))

    found = await store.get(a_run())
    assert found is not None
    assert (found.acceptance, found.accepted_at) == (first, NOON)


async def test_two_ends_of_one_run_in_one_batch_leave_one(store: ResultStore) -> None:
    ends = [an_end(a_run(), "failed", error="one"), an_end(a_run(), "failed", error="two")]
    await store.save(Batch(ends=ends))

    found = await store.get(a_run())
    assert found is not None
    assert found.end in [end.message for end in ends]


async def test_eight_writers_agree_on_one_end(database: ResultDatabase, store: ResultStore) -> None:
    runs = [a_run(f"inv-{number}") for number in range(40)]

    async def write(writer: int) -> None:
        async with database.store() as own:
            for start in range(0, len(runs), 5):
                batch = runs[start : start + 5]
                ends = [an_end(run, "dead_lettered", error=f"writer {writer}") for run in batch]
                await own.save(Batch([an_acceptance(run) for run in batch], ends[:: 1 if writer % 2 else -1]))

    await asyncio.gather(*(write(writer) for writer in range(8)))

    page = await store.list_runs(RunQuery(limit=1000))
    letters = await store.list_dead_letters(DeadLetterQuery(limit=1000))
    assert {each.run for each in page.items} == set(runs)
    errors = {each.run: each.end.error for each in page.items if each.end}
    assert {letter.run: letter.error for letter in letters.items} == errors
    assert len(letters.items) == len(runs)


async def test_the_last_run_of_an_invocation_is_found_without_its_number(store: ResultStore) -> None:
    await store.save(Batch(ends=[an_end(a_run(number=number), "failed") for number in (1, 2, 10)]))

    found = await store.get_last(ECHO, "inv-1")

    assert found is not None
    assert found.run.number == 10
    assert await store.get_last(ECHO, "inv-2") is None


async def test_an_id_is_found_in_every_function_that_has_it(store: ResultStore) -> None:
    functions = [Function("a", "f"), Function("a", "g"), Function("b", "f")]
    await store.save(Batch([an_acceptance(a_run("x", number, each)) for each in functions for number in (1, 2)]))

    assert await store.find("x") == functions
    assert await store.find("y") == []


async def test_lists_filter_by_function_state_and_time(store: ResultStore) -> None:
    other = Function("elsewhere", "echo")
    await store.save(
        Batch(
            [an_acceptance(a_run(f"inv-{second}"), at(second)) for second in range(6)]
            + [an_acceptance(a_run("inv-0", function=other), at(3.5))],
            [
                an_end(a_run("inv-1"), "failed", at(10)),
                an_end(a_run("inv-2"), "succeeded", at(10)),
                an_end(a_run("inv-0", function=other), "failed", at(10)),
            ],
        )
    )

    async def ids(query: RunQuery) -> list[str]:
        page = await store.list_runs(query)
        assert page.next is None
        return [f"{each.run.function.namespace}/{each.run.invocation_id}" for each in page.items]

    echo, elsewhere = "runtime-instance", "elsewhere/inv-0"
    assert await ids(RunQuery(namespace=echo)) == [f"{echo}/inv-{second}" for second in (5, 4, 3, 2, 1, 0)]
    assert await ids(RunQuery(namespace=echo, function="echo", state="failed")) == [f"{echo}/inv-1"]
    assert await ids(RunQuery(state="failed")) == [elsewhere, f"{echo}/inv-1"]
    assert await ids(RunQuery(function="echo", accepted_from=at(3), accepted_before=at(5))) == [
        f"{echo}/inv-4",
        elsewhere,
        f"{echo}/inv-3",
    ]
    assert await ids(RunQuery(namespace=echo, state="queued", accepted_before=at(4))) == [
        f"{echo}/inv-3",
        f"{echo}/inv-0",
    ]
    assert await ids(RunQuery(function="another")) == []


async def test_a_list_has_the_last_run_of_each_invocation_unless_all_are_asked_for(store: ResultStore) -> None:
    await store.save(Batch([an_acceptance(a_run(number=number), at(number)) for number in (1, 2, 3)]))

    assert [each.run.number for each in (await store.list_runs(RunQuery())).items] == [3]
    assert [each.run.number for each in (await store.list_runs(RunQuery(all_runs=True))).items] == [3, 2, 1]


async def test_a_list_does_not_read_payloads_and_bodies(store: ResultStore) -> None:
    await store.save(Batch([an_acceptance(a_run())], [an_end(a_run())]))

    (found,) = (await store.list_runs(RunQuery())).items

    assert found.acceptance is not None
    assert found.acceptance.message is not None
    assert found.end is not None
    assert (found.acceptance.message.payload, found.end.body) == (Body(), Body())


@mutant(
    STATEMENTS,
    '"(accepted_at, namespace, function, id, run) < (?, ?, ?, ?, ?)"',
    '"accepted_at < ? OR ? = ? AND ? = ?"',
)
async def test_pages_neither_repeat_nor_skip_while_runs_are_added(store: ResultStore) -> None:
    """Half of the runs are accepted in the same microsecond: the time alone is no order."""
    runs = [a_run(f"inv-{number:02}") for number in range(20)]
    await store.save(Batch([an_acceptance(run, at(max(number, 10))) for number, run in enumerate(runs)]))

    seen: list[Run] = []
    query = RunQuery(limit=3)
    for page_number in range(100):
        page = await store.list_runs(query)
        seen += [each.run for each in page.items]
        await store.save(
            Batch(
                [an_acceptance(a_run(f"new-{page_number}"), at(60)), an_acceptance(a_run(f"old-{page_number}"), at(1))]
            )
        )
        if page.next is None:
            break
        query = RunQuery(limit=3, token=page.next)

    assert len(seen) == len(set(seen))
    assert set(runs) <= set(seen)


@pytest.mark.parametrize("token", ["", "?", "AAAA", "bnVsbA", "WyJ7fSIsWzFdXQ", "ü", "\x00", "A" * 5000, "W10\n"])
async def test_a_page_token_that_no_list_gave_is_refused(store: ResultStore, token: str) -> None:
    with pytest.raises(InvalidPageToken):
        await store.list_runs(RunQuery(token=token))
    with pytest.raises(InvalidPageToken):
        await store.list_dead_letters(DeadLetterQuery(token=token))


@mutant("serverless/results/paging.py", "if filters != _filters(query):", "if False:")
async def test_a_page_token_of_a_list_with_other_filters_is_refused(store: ResultStore) -> None:
    await store.save(Batch([an_acceptance(a_run(f"inv-{number}")) for number in range(3)]))
    page = await store.list_runs(RunQuery(function="echo", limit=1))

    with pytest.raises(InvalidPageToken, match="other filters"):
        await store.list_runs(RunQuery(function="other", limit=1, token=page.next))
    with pytest.raises(InvalidPageToken):
        await store.list_dead_letters(DeadLetterQuery(token=page.next))


async def test_a_dead_lettered_run_is_a_dead_letter_until_it_is_redriven(store: ResultStore) -> None:
    end = an_end(a_run(), "dead_lettered", at(3), failureClass="retry_exhausted", error="exit 1", attempts=5)
    await store.save(Batch([an_acceptance(a_run())], [end]))
    before = await store.list_dead_letters(DeadLetterQuery(redriven=False))

    await store.save(Batch([an_acceptance(a_run(number=2))]))

    letter = DeadLetter("runtime-instance.echo.inv-1.1", "run", at(3), "retry_exhausted", "exit 1", 5, a_run())
    assert before.items == [letter]
    assert (await store.list_dead_letters(DeadLetterQuery(redriven=False))).items == []
    (redriven,) = (await store.list_dead_letters(DeadLetterQuery(redriven=True, function="echo"))).items
    assert redriven.redriven
    found = await store.get_dead_letter(letter.id)
    assert found == redriven


async def test_a_message_that_nobody_could_read_is_kept_with_its_bytes(store: ResultStore) -> None:
    letter = replace_content(a_dead_letter(), bytes(range(256)))
    await store.save(Batch(dead_letters=[letter, letter]))
    await store.save(Batch(dead_letters=[letter]))

    assert await store.get_dead_letter(letter.id) == letter
    (listed,) = (await store.list_dead_letters(DeadLetterQuery(source="malformed"))).items
    assert listed == replace_content(letter, None)
    assert (await store.list_dead_letters(DeadLetterQuery(source="max_deliver"))).items == []
    assert await store.get_dead_letter("another") is None


async def test_dead_letters_are_listed_in_pages_newest_first(store: ResultStore) -> None:
    letters = [a_dead_letter(f"malformed.RESULTS.{number}", failed_at=number // 2) for number in range(7)]
    runs = [an_end(a_run(f"inv-{number}"), "dead_lettered", at(number)) for number in range(3)]
    await store.save(Batch(ends=runs, dead_letters=letters))

    seen, token = [], None
    while True:
        page = await store.list_dead_letters(DeadLetterQuery(limit=2, token=token))
        seen += page.items
        token = page.next
        if token is None:
            break

    assert len({each.id for each in seen}) == len(seen) == 10
    assert [each.failed_at for each in seen] == sorted((each.failed_at for each in seen), reverse=True)


HOSTILE = ["\x00", "a\x00b", "'; DROP TABLE runs; --", "\U0001f600", "\u202e", "$1 ?1 {text}", "\\", "x" * 2**20]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
async def test_hostile_strings_survive(store: ResultStore, text: str) -> None:
    acceptance = an_acceptance(a_run(), headers={text: text}, attributes={text: text}, contentType=text)
    end = an_end(a_run(), "dead_lettered", headers={text: text}, error=text, workerName=text)
    letter = a_dead_letter(content=text.encode())
    letter = replace_headers(letter, {text: text})

    await store.save(Batch([acceptance], [end], [letter]))

    found = await store.get(a_run())
    assert found is not None
    assert (found.acceptance, found.end) == (acceptance, end.message)
    assert await store.get_dead_letter(letter.id) == letter
    # As filters they find nothing, and break nothing that a database in good order survives.
    for query in (RunQuery(namespace=text), RunQuery(function=text)):
        assert await store.list_runs(query) == await store.list_runs(RunQuery(function="another"))
    assert await store.get_last(Function(text, text), text) is None
    assert await store.find(text) == []
    assert await store.get_dead_letter(text) is None


async def test_half_characters_from_outside_are_replaced(store: ResultStore) -> None:
    letter = replace_headers(a_dead_letter(), {"\udc80": "\ud800"})
    await store.save(Batch(dead_letters=[letter]))

    found = await store.get_dead_letter(letter.id)
    assert found is not None
    assert found.headers == {"?": "?"}
    assert await store.find("\ud800") == []


async def test_bodies_of_every_kind_survive(store: ResultStore) -> None:
    bodies = [
        Body(),
        LARGE,
        Body.of(b"null", is_json=True),
        Body.of(b'"\\ud83d\\ude00\\u0000"', is_json=True),
        Body.of(bytes(range(256)) * 2048, is_json=False),
    ]
    for number, body in enumerate(bodies):
        run = a_run(f"inv-{number}")
        await store.save(Batch([an_acceptance(run, payload=body)], [an_end(run, body=body)]))
        found = await store.get(run)
        assert found is not None
        assert found.acceptance is not None
        assert found.acceptance.message is not None
        assert found.end is not None
        assert (found.acceptance.message.payload, found.end.body) == (body, body)


async def test_large_bodies_are_kept_apart(store: ResultStore) -> None:
    content = bytes(range(256)) * 20_000
    await store.save_body(a_run(), "result", content)
    await store.save_body(a_run(), "result", b"another")

    assert await store.body(a_run(), "result") == content
    assert await store.body(a_run(), "payload") is None
    assert await store.body(a_run(number=2), "result") is None


async def test_finished_runs_come_oldest_first_until_they_are_purged(store: ResultStore) -> None:
    for number in range(5):
        await finish(store, a_run(f"inv-{number}"), at(10 - number), purged=False)
    await store.save(Batch([an_acceptance(a_run("unfinished"))]))

    due = await store.finished(at(9), 2)
    await store.mark_purged([each.run for each in due])

    assert [each.run.invocation_id for each in due] == ["inv-4", "inv-3"]
    assert all(each.acceptance_stored and not each.payload_missing for each in due)
    assert [each.run.invocation_id for each in await store.finished(at(9), 9)] == ["inv-2"]


async def test_finished_runs_tell_what_the_database_lacks(store: ResultStore) -> None:
    lacks, has, ended, large = a_run("lacks"), a_run("has"), a_run("ended"), a_run("large")
    await store.save(Batch([an_acceptance(run, payload=LARGE) for run in (lacks, has)]))
    await store.save(Batch(ends=[an_end(run, "failed") for run in (lacks, has, ended)]))
    await store.save_body(has, "payload", b"abc")
    await store.save(Batch(ends=[an_end(large, body=LARGE)]))

    found = {
        each.run: (each.state, each.acceptance_stored, each.large_bodies, each.payload_missing)
        for each in await store.finished(at(1), 9)
    }

    assert found == {
        lacks: ("failed", True, True, True),
        has: ("failed", True, True, False),
        ended: ("failed", False, False, False),
        large: ("succeeded", False, True, False),
    }


@mutant(STATEMENTS, "WHERE purged = 1 AND ended_at < $1", "WHERE ended_at < $1")
async def test_retention_deletes_only_what_is_purged_and_old(store: ResultStore) -> None:
    for number in range(4):
        await finish(store, a_run(f"inv-{number}"), at(number), purged=number != 1)
    await store.save_body(a_run("inv-0"), "result", b"abc")

    deleted = await store.delete_oldest(100, ended_before=at(3))

    assert (deleted.runs, deleted.dead_letters) == (2, 0)
    left = (await store.list_runs(RunQuery())).items
    assert [each.run.invocation_id for each in left] == ["inv-3", "inv-1"]
    assert await store.body(a_run("inv-0"), "result") is None


async def test_retention_deletes_the_oldest_of_runs_and_dead_letters(store: ResultStore) -> None:
    await store.save(
        Batch(
            [an_acceptance(a_run("dead"))],
            [an_end(a_run("dead"), "dead_lettered", at(1))],
            [a_dead_letter("malformed.RESULTS.1", failed_at=0), a_dead_letter("malformed.RESULTS.2", failed_at=3)],
        )
    )
    await store.mark_purged([a_run("dead")])
    await finish(store, a_run("young"), at(2))

    deleted = await store.delete_oldest(2)

    assert (deleted.runs, deleted.dead_letters) == (1, 1)
    assert [each.id for each in (await store.list_dead_letters(DeadLetterQuery())).items] == ["malformed.RESULTS.2"]
    assert [each.run.invocation_id for each in (await store.list_runs(RunQuery())).items] == ["young"]
    assert await store.delete_oldest(9)
    assert not await store.delete_oldest(9)


async def test_the_size_counts_what_is_stored_and_what_is_deleted(store: ResultStore) -> None:
    assert await store.size() == 0
    await finish(store, a_run("inv-1"), at(1))
    await store.save_body(a_run("inv-1"), "result", b"x" * 100_000)
    before = await store.size()
    await finish(store, a_run("inv-2"), at(2))
    await store.save(Batch([an_acceptance(a_run("inv-2"))], [an_end(a_run("inv-2"))]))
    both = await store.size()

    deleted = await store.delete_oldest(1)

    assert before > 100_000
    assert deleted.size == before
    assert await store.size() == both - before


async def test_a_reader_sees_what_was_saved(database: ResultDatabase, store: ResultStore) -> None:
    async with database.reader() as reader:
        await store.save(Batch([an_acceptance(a_run())]))
        found = await reader.get(a_run())
        assert found is not None
        await store.save(Batch(ends=[an_end(a_run())]))
        found = await reader.get(a_run())
        assert found is not None
        assert found.state == "succeeded"


async def test_a_reader_waits_for_the_schema_with_clear_words(database: ResultDatabase) -> None:
    async with database.reader() as reader:
        with pytest.raises(StoreUnavailable, match="has the result store started"):
            await reader.get(a_run())
        async with database.store():
            assert await reader.get(a_run()) is None


async def test_a_closed_store_says_so(database: ResultDatabase) -> None:
    async with database.store() as store:
        await store.save(Batch([an_acceptance(a_run())]))
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.get(a_run())
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.save(Batch([an_acceptance(a_run())]))


def replace_content(letter: DeadLetter, content: bytes | None) -> DeadLetter:
    return DeadLetter(**{**vars(letter), "content": content})


def replace_headers(letter: DeadLetter, headers: dict[str, str]) -> DeadLetter:
    return DeadLetter(**{**vars(letter), "headers": headers})
