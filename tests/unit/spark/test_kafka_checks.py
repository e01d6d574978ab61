"""What is asked of a Kafka broker before Spark does, with a client that only pretends."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JJavaError

from penstock.errors import DataError
from penstock.spark.kafka import check_sink, check_source

OPTIONS = {
    "kafka.bootstrap.servers": "host:9092", "kafka.security.protocol": "SSL", "subscribe": "a, b",
    "topic": "c",
}  # fmt: skip
ERRORS = "org.apache.kafka.common.errors"


class Said(Py4JJavaError):  # type: ignore[misc]
    """An error of Java's as Python sees it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


def raising(text: str) -> Callable[..., Any]:
    def call(*_: object) -> None:
        raise Said(text)

    return call


def future(get: Callable[..., Any] = lambda: None) -> Callable[..., Any]:
    return lambda *_: SimpleNamespace(get=get)


class Broker:
    """A JVM whose Kafka has some topics, and notes with what it was asked."""

    def __init__(self, topics: str = "", nodes: str = "", makes: str = "errors.Timeout") -> None:
        self.settings: dict[str, str] = {}
        self.topics, self.open = topics, 0
        cluster = SimpleNamespace(nodes=future(raising(nodes) if nodes else list))
        self.admin = SimpleNamespace(
            describeCluster=lambda: cluster, describeTopics=self.describe, close=self.close
        )
        send = raising(makes) if makes else lambda topic: []
        self.producer = SimpleNamespace(partitionsFor=send, close=self.close)
        self._jvm = SimpleNamespace(
            java=SimpleNamespace(
                util=SimpleNamespace(
                    HashMap=lambda: SimpleNamespace(put=self.settings.__setitem__)
                ),
                time=SimpleNamespace(Duration=SimpleNamespace(ZERO=0)),
            )
        )
        self.clients = SimpleNamespace(
            admin=SimpleNamespace(AdminClient=SimpleNamespace(create=self.create(self.admin))),
            producer=SimpleNamespace(KafkaProducer=self.create(self.producer)),
        )
        kafka = SimpleNamespace(clients=self.clients)
        self._jvm.org = SimpleNamespace(apache=SimpleNamespace(kafka=kafka))

    def create(self, client: Any) -> Callable[[Any], Any]:
        def make(settings: Any) -> Any:
            self.open += 1
            return client

        return make

    def close(self, wait: int) -> None:
        self.open -= 1

    def describe(self, names: list[str]) -> Any:
        known = all(name in self.topics.split() for name in names)
        get = dict if known else raising(f"{ERRORS}.UnknownTopicOrPartitionException: …")
        return SimpleNamespace(allTopicNames=future(get))


def told(check: Callable[..., None], broker: Any) -> str:
    with pytest.raises(DataError, match="PS-X-001") as error:
        check(broker, OPTIONS, "stream s", "PS-X-001")
    assert broker.open == 0
    return error.value.message


def test_what_is_not_there_is_named() -> None:
    gone = Broker(nodes=f"{ERRORS}.TimeoutException: Timed out waiting for a node assignment.")
    assert told(check_source, gone) == "stream s: no server answers at host:9092"
    assert told(check_sink, gone) == "stream s: no server answers at host:9092"
    assert told(check_source, Broker("a")) == "stream s: there is no topic b"
    makes_none = Broker("a", makes=f"{ERRORS}.TimeoutException: Topic c not present in metadata")
    assert told(check_sink, makes_none) == "stream s: there is no topic c"


def test_what_is_there_or_cannot_be_told_is_left_to_spark() -> None:
    forbidden = f"{ERRORS}.SaslAuthenticationException: …"
    for broker in (Broker("a b c"), Broker("a b", makes=""), Broker("a b c", nodes=forbidden)):
        check_source(broker, OPTIONS, "stream s", "PS-X-001")  # type: ignore[arg-type]
        check_sink(broker, OPTIONS, "sink s", "PS-X-001")  # type: ignore[arg-type]
        assert broker.open == 0
        assert broker.settings["security.protocol"] == "SSL"
        assert "subscribe" not in broker.settings
    shaded = Broker()
    shaded.clients.admin.AdminClient = JavaPackage("AdminClient", None)
    check_source(shaded, OPTIONS, "stream s", "PS-X-001")  # type: ignore[arg-type]
