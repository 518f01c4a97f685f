"""Quantities mean on the real API server what they mean here, and what we print comes back unchanged."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from equipment.servers import ApiServer
from gpu_runtime.api.meta.quantity import Quantity
from realkube.api import Answer
from unit.api.test_quantity import CANONICAL, NOT_QUANTITIES

SEED = 20300131
RANDOM_TEXTS = 400

# The server takes these texts for canonical already and returns them as they came.
ECHOED = {"1.", "+1", "007", "1.500", "1E3"}
# The server reads these as 0, or forgives the space; by its own documentation they are no quantities.
FORGIVEN = {"Gi", ".", "+", "-", "e3", " 1Gi", "1Gi "}
# Where the server loses the exponent and stores another amount: 5000E becomes 5.
LOST = {"5000E"}


def ask(server: ApiServer, namespace: str, texts: Sequence[str]) -> Answer:
    """Send the texts as size limits of a pod's volumes, without making the pod."""
    volumes = [{"name": f"v{index}", "emptyDir": {"sizeLimit": text}} for index, text in enumerate(texts)]
    pod = {
        "metadata": {"name": "quantities"},
        "spec": {"containers": [{"name": "c", "image": "busybox:1.36"}], "volumes": volumes},
    }
    return server.request("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)


def read_back(server: ApiServer, namespace: str, texts: Iterable[str]) -> dict[str, str]:
    """What the server makes of each text."""
    sent = list(texts)
    answer = ask(server, namespace, sent)
    assert answer.status == 201, answer.body
    return {text: answer.body["spec"]["volumes"][index]["emptyDir"]["sizeLimit"] for index, text in enumerate(sent)}


def random_texts() -> list[str]:
    chance = random.Random(SEED)

    def digits(most: int) -> str:
        return "".join(chance.choice("0000123456789") for _ in range(chance.randint(1, most)))

    numbers = [
        lambda: digits(12),
        lambda: f"{digits(9)}.{digits(12)}",
        lambda: f".{digits(9)}",
        lambda: f"{digits(9)}.",
    ]
    suffixes = ["", *"numkMGT", "Ki", "Mi", "Gi", "Ti", "Pi", "e3", "E-6", "e-12", "e+2", "e0"]
    return sorted({chance.choice(numbers)() + chance.choice(suffixes) for _ in range(RANDOM_TEXTS)})


def test_the_server_prints_the_canonical_form_that_we_print(api_server: ApiServer, namespace: str) -> None:
    positive = {text: want for text, want in CANONICAL.items() if not want.startswith("-") and text not in LOST}
    shown = read_back(api_server, namespace, positive)
    assert shown == positive | {text: text for text in ECHOED}


def test_any_text_means_the_same_here_and_there(api_server: ApiServer, namespace: str) -> None:
    shown = read_back(api_server, namespace, random_texts())
    ours = {text: str(Quantity.parse(text)) for text in shown}
    differing = {text: (shown[text], ours[text]) for text in shown if shown[text] not in (ours[text], text)}
    assert differing == {}
    assert all(Quantity.parse(shown[text]) == Quantity.parse(text) for text in shown)


def test_what_we_print_comes_back_unchanged(api_server: ApiServer, namespace: str) -> None:
    ours = {str(Quantity.parse(text)) for text in random_texts()}
    assert {text: text for text in ours} == read_back(api_server, namespace, ours)


def test_what_we_refuse_the_server_refuses_too(api_server: ApiServer, namespace: str) -> None:
    refused = {text for text in NOT_QUANTITIES if ask(api_server, namespace, [text]).status != 201}
    assert refused == set(NOT_QUANTITIES) - FORGIVEN
