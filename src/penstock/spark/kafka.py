"""Kafka: check that the broker and topics of a stream or sink exist.

Spark checks only when the job runs, and retries for minutes without a message. This check uses
the connector's own client. If the client cannot decide (it needs Spark's delegation tokens, or
may not see the topic), the check is left to Spark.
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
_NO_ANSWER = re.compile(r"errors\.TimeoutException|No resolvable bootstrap urls")
_NO_TOPIC = re.compile(r"errors\.(?:UnknownTopicOrPartition|InvalidTopic)Exception")


def check_source(spark: SparkSession, options: Mapping[str, str], what: str, code: str) -> None:
    """Refuse a stream if its broker does not answer or a topic does not exist."""
    topics = [topic.strip() for topic in options.get("subscribe", "").split(",") if topic.strip()]
    with _admin(spark, options, what, code) as admin:
        if admin is not None:
            missing = _missing(admin, topics)
            if missing:
                raise _no_topic(what, missing, code)


def check_sink(spark: SparkSession, options: Mapping[str, str], what: str, code: str) -> None:
    """Refuse a sink if its broker does not answer, or neither has nor creates the topic."""
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
    """A client of a broker that answers; None if no client can be created."""
    jvm: Any = spark._jvm
    clients = jvm.org.apache.kafka.clients.admin.AdminClient
    made = None
    try:
        if not isinstance(clients, JavaPackage):  # otherwise the connector bundles its own client
            made = clients.create(_settings(spark, options))
            made.describeCluster().nodes().get()
    except Py4JJavaError as error:
        if _NO_ANSWER.search(str(error)):
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
    """The options for Kafka's client, with shorter timeouts."""
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
    """The first topic that does not exist; empty if all exist."""
    for topic in topics:
        try:
            admin.describeTopics([topic]).allTopicNames().get()
        except Py4JJavaError as error:
            if _NO_TOPIC.search(str(error)):
                return topic
    return ""


def _is_made(spark: SparkSession, options: Mapping[str, str], topic: str) -> bool:
    """Whether the broker creates missing topics on write."""
    settings = _settings(spark, options)
    for side in ("key", "value"):
        settings.put(f"{side}.serializer", _SERIALIZER)
    producer: Any = None
    try:
        producer = spark._jvm.org.apache.kafka.clients.producer.KafkaProducer(settings)  # type: ignore[union-attr]
        producer.partitionsFor(topic)
    except Py4JJavaError as error:
        return not (_NO_ANSWER.search(str(error)) or _NO_TOPIC.search(str(error)))
    finally:
        _close(spark, producer)
    return True
