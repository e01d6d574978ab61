"""Kafka: whether the broker and the topics that a stream or a sink names are there.

Spark asks only when the job runs, several times and for minutes, in which nobody hears a word.
The question is asked with the connector's own client; what it cannot tell (a client that cannot
be made without Spark's delegation tokens, a topic that it may not see) is left to Spark.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from penstock.errors import DataError

SERVERS = "kafka.bootstrap.servers"
_PATIENCE_MS = "10000"
_SERIALIZER = "org.apache.kafka.common.serialization.ByteArraySerializer"
_NOBODY = re.compile(r"errors\.TimeoutException|No resolvable bootstrap urls")
_NO_TOPIC = re.compile(r"errors\.(?:UnknownTopicOrPartition|InvalidTopic)Exception")


def check_source(spark: SparkSession, options: Mapping[str, str], what: str, code: str) -> None:
    """Refuse a stream whose broker does not answer, or has no such topics."""
    topics = [topic.strip() for topic in options.get("subscribe", "").split(",") if topic.strip()]
    with _admin(spark, options, what, code) as admin:
        if admin is not None:
            missing = _missing(admin, topics)
            if missing:
                raise _no_topic(what, missing, code)


def check_sink(spark: SparkSession, options: Mapping[str, str], what: str, code: str) -> None:
    """Refuse a sink whose broker does not answer, or neither has the topic nor makes it."""
    topic = options["topic"]
    with _admin(spark, options, what, code) as admin:
        if admin is not None and _missing(admin, [topic]) and not _is_made(spark, options, topic):
            raise _no_topic(what, topic, code)


def _no_topic(what: str, topic: str, code: str) -> DataError:
    return DataError(
        f"{what}: there is no topic {topic}", code=code,
        remedy="create the topic first, or correct its name",
    )  # fmt: skip


@contextmanager
def _admin(spark: SparkSession, options: Mapping[str, str], what: str, code: str) -> Iterator[Any]:
    """A client of a broker that answers; None when there can be no client."""
    jvm: Any = spark._jvm
    clients = jvm.org.apache.kafka.clients.admin.AdminClient
    made = None
    try:
        if not isinstance(clients, JavaPackage):  # else the connector has a client of its own
            made = clients.create(_settings(spark, options))
            made.describeCluster().nodes().get()
    except Py4JJavaError as error:
        if _NOBODY.search(str(error)):
            _close(spark, made)
            raise DataError(
                f"{what}: no server answers at {options[SERVERS]}", code=code,
                remedy=f"start the broker, or correct {SERVERS} and the other kafka.* options",
            ) from None  # fmt: skip
    try:
        yield made
    finally:
        _close(spark, made)


def _settings(spark: SparkSession, options: Mapping[str, str]) -> Any:
    """The options for Kafka itself, with less patience."""
    found: Any = spark._jvm.java.util.HashMap()  # type: ignore[union-attr]
    for limit in ("default.api.timeout.ms", "request.timeout.ms", "max.block.ms"):
        found.put(limit, _PATIENCE_MS)
    for key, value in options.items():
        if key.startswith("kafka."):
            found.put(key.removeprefix("kafka."), value)
    return found


def _close(spark: SparkSession, client: Any) -> None:
    if client is not None:
        client.close(spark._jvm.java.time.Duration.ZERO)  # type: ignore[union-attr]


def _missing(admin: Any, topics: Collection[str]) -> str:
    """The first topic that the broker says it does not have; empty: none."""
    for topic in topics:
        try:
            admin.describeTopics([topic]).allTopicNames().get()
        except Py4JJavaError as error:
            if _NO_TOPIC.search(str(error)):
                return topic
    return ""


def _is_made(spark: SparkSession, options: Mapping[str, str], topic: str) -> bool:
    """Whether the broker makes a topic when somebody wants to write to it."""
    settings = _settings(spark, options)
    for side in ("key", "value"):
        settings.put(f"{side}.serializer", _SERIALIZER)
    producer: Any = None
    try:
        producer = spark._jvm.org.apache.kafka.clients.producer.KafkaProducer(settings)  # type: ignore[union-attr]
        producer.partitionsFor(topic)
    except Py4JJavaError as error:
        return not (_NOBODY.search(str(error)) or _NO_TOPIC.search(str(error)))
    finally:
        _close(spark, producer)
    return True
