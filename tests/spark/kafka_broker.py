"""A Kafka broker of one node, on the loopback interface, from a folder of jars."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FOLDER = os.environ.get("PENSTOCK_KAFKA_JARS")
JARS = Path(_FOLDER) if _FOLDER else None
"""A folder with the jars of a broker and of Spark's connector, which `make kafka` fetches."""
CONNECTOR = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
PATIENCE = 120  # seconds


def connector(jars: Path) -> str:
    """The jars that Spark needs, as `spark.jars` wants them."""
    return ",".join(
        str(jar) for jar in sorted(jars.glob("*.jar")) if jar.name.startswith(CONNECTOR)
    )


@contextmanager
def broker(jars: Path, folder: Path) -> Iterator[str]:
    """A broker that makes no topics by itself; its address."""
    port, control = free_ports(2)
    address = f"127.0.0.1:{port}"
    properties = folder / "server.properties"
    properties.write_text(f"""\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://{address},CONTROLLER://127.0.0.1:{control}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{control}
log.dirs={folder / "log"}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
""")
    home = os.environ.get("JAVA_HOME")
    java = [f"{home}/bin/java" if home else "java", "-Xmx512m", "-cp", f"{jars}/*"]
    cluster = "cGVuc3RvY2sta2Fma2EtMQ"  # any 16 bytes
    with (folder / "broker.log").open("wb") as log:
        subprocess.run(
            [*java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties)],
            stdout=log, stderr=log, check=True, timeout=PATIENCE,
        )  # fmt: skip
        running = subprocess.Popen([*java, "kafka.Kafka", str(properties)], stdout=log, stderr=log)
    try:
        wait_for(port, running)
        yield address
    finally:
        running.terminate()
        running.wait(PATIENCE)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [server.getsockname()[1] for server in servers]
    finally:
        for server in servers:
            server.close()


def wait_for(port: int, running: subprocess.Popen[bytes]) -> None:
    """Return when the broker takes connections."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and running.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("the broker does not start: see broker.log")
