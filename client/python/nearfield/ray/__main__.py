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
    """Returns the arguments that are given, by their names in Cluster and Client."""
    parser = argparse.ArgumentParser(prog="python -m nearfield.ray", description=__doc__)
    parser.add_argument("--storage", required=True, help="a folder, or s3://bucket/prefix")
    parser.add_argument("--cluster", help="name of the cluster, if several use the storage")
    commands = parser.add_subparsers(dest="command", required=True)

    def add(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=text, argument_default=argparse.SUPPRESS)

    text = "start a cluster, on the Ray of RAY_ADDRESS or a local one, until Ctrl-C or `stop`"
    start = add("start", text)
    for name, kind, text in (
        ("shards", int, "servers that share the rows; default: 1"),
        ("replicas", int, "servers of each shard; default: 1"),
        ("name", str, "of the cluster; default: nearfield"),
        ("num-cpus", float, "cores of each server; default: 1"),
        ("num-gpus", float, "GPUs of each server; default: 1 if Ray has enough"),
        ("nodes", int, "wait until Ray has this many nodes"),
        ("host", str, "address that the servers listen on"),
        ("ports", str, "FIRST-LAST: those that they take; default: any"),
        ("program", str, "nearfield-server"),
    ):
        start.add_argument(f"--{name}", type=kind, help=text)
    text = "start all servers again, while searches go on; --set changes, NAME= removes a setting"
    named: Any = {"dest": "settings", "metavar": "NAME=VALUE", "action": "append", "default": []}
    for each in (start, add("restart", text)):
        each.add_argument("--set", type=setting, **named)
    add("status", "print the state as JSON")
    add("stop", "end the cluster; the rows stay in the storage")
    add("resize", "change the number of shards").add_argument("shards", type=int)
    for name, text in (
        ("compact", "replace the uploads of a collection by its rows"),
        ("withdraw", "withdraw the latest commit to a collection, which no server can load"),
    ):
        add(name, text).add_argument("name", metavar="collection")
    return parser.parse_args(arguments)


def start(storage: str, *, nodes: int = 1, **options: Any) -> None:
    import ray

    from nearfield.ray._cluster import Cluster
    from nearfield.ray._server import live_nodes

    def end(*received: object) -> None:
        raise KeyboardInterrupt(*received)

    ray.init()
    for each in (signal.SIGTERM, signal.SIGINT):  # Ray sets handlers of its own before
        signal.signal(each, end)
    while len(live_nodes()) < nodes:
        threading.Event().wait(_LOOK_SECONDS)
    cluster = Cluster(storage, **options)
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
    given = vars(parse(arguments))
    storage, name, command = (given.pop(each) for each in ("storage", "cluster", "command"))
    if "settings" in given:
        given["settings"] = dict(given["settings"])
    try:
        if command == "start":
            with contextlib.suppress(KeyboardInterrupt):
                start(storage, **given)
            return 0
        with Client(storage, cluster=name) as client:
            reply = getattr(client, command)(**given)
    except (Error, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    numbers = {"restart": "servers", "compact": "operations_removed"}
    if reply is not None:
        print(json.dumps({numbers[command]: reply} if command in numbers else reply, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
