"""The command of a cluster: python -m nearfield.ray."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import threading
from typing import Any

from nearfield._errors import Error
from nearfield.ray._client import Client

_LOOK_SECONDS = 1.0


def setting(text: str) -> tuple[str, str]:
    name, value = text.split("=", 1)  # argparse reports the ValueError
    return name, value


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m nearfield.ray", description=__doc__)
    parser.add_argument("--storage", required=True, help="a folder, or s3://bucket/prefix")
    parser.add_argument("--cluster", help="name of the cluster, if several use the storage")
    commands = parser.add_subparsers(dest="command", required=True)
    settings = argparse.ArgumentParser(add_help=False)
    settings.add_argument("--set", type=setting, action="append", default=[], metavar="NAME=VALUE")
    start = commands.add_parser(
        "start",
        parents=[settings],
        help="start a cluster, on the Ray of RAY_ADDRESS or a local one, until Ctrl-C or `stop`",
    )
    start.add_argument("--shards", type=int, default=1)
    start.add_argument("--replicas", type=int, default=1)
    start.add_argument("--name", default="nearfield")
    start.add_argument("--num-cpus", type=float, help="cores of each server; default: 1")
    start.add_argument(
        "--num-gpus", type=float, help="GPUs of each server; default: 1 if Ray has enough"
    )
    start.add_argument("--nodes", type=int, default=1, help="wait until Ray has this many nodes")
    start.add_argument("--host", help="address that the servers listen on")
    start.add_argument("--ports", metavar="FIRST-LAST", help="that they take; default: any")
    start.add_argument("--program", help="nearfield-server")
    commands.add_parser("status", help="print the state as JSON")
    resize = commands.add_parser("resize", help="change the number of shards")
    resize.add_argument("shards", type=int)
    commands.add_parser("stop", help="end the cluster; the rows stay in the storage")
    text = "start all servers again, while searches go on; --set changes, NAME= removes a setting"
    commands.add_parser("restart", help=text, parents=[settings])
    withdraw = commands.add_parser(
        "withdraw", help="withdraw the latest commit to a collection, which no server can load"
    )
    withdraw.add_argument("collection")
    compact = commands.add_parser("compact", help="replace the uploads of a collection by its rows")
    compact.add_argument("collection")
    return parser.parse_args(arguments)


def start(arguments: argparse.Namespace) -> None:
    import ray

    from nearfield.ray._cluster import Cluster
    from nearfield.ray._server import live_nodes

    def end(*received: object) -> None:
        raise KeyboardInterrupt(*received)

    ray.init()
    for each in (signal.SIGTERM, signal.SIGINT):  # Ray sets handlers of its own before
        signal.signal(each, end)
    while len(live_nodes()) < arguments.nodes:
        threading.Event().wait(_LOOK_SECONDS)
    cluster = Cluster(
        arguments.storage,
        shards=arguments.shards,
        replicas=arguments.replicas,
        name=arguments.name,
        num_cpus=arguments.num_cpus,
        num_gpus=arguments.num_gpus,
        host=arguments.host,
        ports=arguments.ports,
        program=arguments.program,
        settings=dict(arguments.set),
    )
    other = "" if cluster.started else ", of a cluster that ran already: only `stop` ends it"
    try:
        print(f"nearfield.ray: ready, coordinator at {cluster.address}{other}", flush=True)
        while cluster.runs():
            threading.Event().wait(_LOOK_SECONDS)
        print("nearfield.ray: the cluster was stopped", flush=True)
    except KeyboardInterrupt:
        if cluster.started:
            cluster.stop()


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    chosen = parse(arguments)
    try:
        if chosen.command == "start":
            with contextlib.suppress(KeyboardInterrupt):
                start(chosen)
            return 0
        with Client(chosen.storage, cluster=chosen.cluster) as client:
            reply: Any = None
            if chosen.command == "status":
                reply = client.status()
            elif chosen.command == "resize":
                client.resize(chosen.shards)
            elif chosen.command == "stop":
                client.stop()
            elif chosen.command == "restart":
                reply = {"servers": client.restart(settings=dict(chosen.set))}
            elif chosen.command == "withdraw":
                client.withdraw(chosen.collection)
            else:
                reply = {"operations_removed": client.compact(chosen.collection)}
    except (Error, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if reply is not None:
        print(json.dumps(reply, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
