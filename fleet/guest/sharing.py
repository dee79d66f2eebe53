"""Tests of what annotations promise, read from the kernel's count (memory.numa_stat)."""

import json
import time
from collections.abc import Callable

from daemon_of_pods import config, tenants, told, wait_for_tenants
from kube import MIB, PATIENCE_S, Node, Pod, keep, keep_logs, write
from tierguest import Guest, test
from tierguest.daemon import Tierwised
from tierguest.guest import DROP_CACHES
from tierguest.settings import PER_CPU_LISTS

# Free MiB of the fast node when the pods start, of which the kernel keeps some 32.
LEFT_MIB = 320
# More than the fast node has for pods, with all that the kernel can drop there: with less, all pods
# were fast in the end, where the kernel drops much (6.12).
GREEDY_MIB = 400
# Pause of a program that uses its memory a third as often as the greedy one.
IDLE_US = 40_000
# Seconds between two rows of a course.
EVERY_S = 2
# Seconds in which what holds must go on to hold.
HELD_S = 60
# What was allocated and is not yet moved: the daemon's own tolerance in its alert.
NEARLY = 0.95


def stairs(mib: int, pause_us: int, hot_mib: int = 0) -> list[str]:
    """Returns the command of a program whose memory is known."""
    words = ["stairs", f"mib={mib}", f"hot_mib={hot_mib or mib}", "pattern=fixed", "forget=1"]
    return [*words, f"pause_us={pause_us}"]


def runs(daemon: Tierwised) -> None:
    """Fails if the daemon has ended."""
    assert daemon.running(), f"tierwised ended: {daemon.printed()}"


class Course:
    """The fast memory of pods over time."""

    def __init__(self, node: Node, test_name: str) -> None:
        self.node = node
        self.name = test_name
        self.began = time.monotonic()
        self.rows: list[dict[str, object]] = []

    def row(self, event: str = "") -> dict[str, float]:
        """Reads a row."""
        held = {name: round(self.node.fast_mib(pod), 1) for name, pod in self.node.pods.items()}
        seconds = round(time.monotonic() - self.began)
        self.rows.append({"seconds": seconds, "event": event, "fast_mib": held})
        # On the console, for whoever watches.
        print(f"lab: {seconds} s: {held} {event}", flush=True)
        keep(f"{self.name}.json", json.dumps(self.rows))
        return held

    def until(self, daemon: Tierwised, name: str, least_mib: float) -> float:
        """Reads rows until a pod holds this much. Returns the seconds that it took."""

        def enough() -> bool:
            runs(daemon)
            return self.row()[name] >= least_mib

        def saying() -> str:
            said = f"{self.rows[-1]}; {told(self.node.guest)}; {self.node.describe()}"
            return f"{said}; {daemon.printed()[-1500:]}"

        return self.node.guest.wait_until(enough, PATIENCE_S, saying, every_s=EVERY_S)

    def least(self, alive: Callable[[], None], name: str, seconds: float = HELD_S) -> float:
        """Returns the least that a pod holds during some seconds, in which `alive` does not
        fail."""
        end = time.monotonic() + seconds
        found = []
        while time.monotonic() < end:
            alive()
            found.append(self.row()[name])
            time.sleep(EVERY_S)
        return min(found)


def crowd(guest: Guest, left_mib: int = LEFT_MIB) -> None:
    """Leaves little of the fast node free."""
    # The kernel would make room for pods by dropping what it keeps of images, and this much more of
    # their memory would be fast.
    write(DROP_CACHES, 3)
    # A hundredth of a zone: with up to an eighth on per-CPU lists, the pods would get more than
    # readings of free memory show.
    write(PER_CPU_LISTS, 100)
    guest.ballast(left_mib)


@test(boot="hmat", needs=("tierwised", "tierwise"), timeout_s=2400)
def a_pods_floor_holds_beside_a_greedy_one(guest: Guest) -> None:
    """A pod whose memory is seldom used holds its floor of 96 MiB beside one that uses all of its
    memory all the time, and reaches it before a pod like it without the annotation has as much."""
    floor = 96
    with Node(guest) as node:
        crowd(guest)
        node.start(Pod("greedy", stairs(GREEDY_MIB, 200)), GREEDY_MIB)
        node.start(Pod("plain", stairs(128, IDLE_US)), 128)
        held = {"tierwise.io/floor": f"{floor}Mi"}
        pod = node.start(Pod("held", stairs(128, IDLE_US), held), 128)
        course = Course(node, "floor")
        before = course.row("the daemon starts")
        assert before["held"] < floor * NEARLY, f"nothing to do: {before}"
        daemon = guest.tierwised(config(guest))
        guest.figure("known_s", wait_for_tenants(guest, node, daemon))
        guest.figure("held_s", course.until(daemon, "held", floor * NEARLY))
        reached = course.row()
        assert reached["plain"] < reached["held"], reached
        least = course.least(lambda: runs(daemon), "held")
        guest.figure("least_mib", least)
        assert least >= floor * NEARLY, f"{least} MiB: {course.rows[-30:]}"
        after = course.row()
        guest.figure("after", json.dumps(after))
        row = tenants(guest)["shop/held-lab"]
        assert row["tiers"][0]["floor_bytes"] == floor * MIB, row
        assert row["pod"]["qos_class"] == "Burstable" and not row["pod"]["problems"], row
        # It ends, and the others have its memory.
        node.forget(pod.name)
        wait_for_tenants(guest, node, daemon)
        course.row("the pod with the floor has ended")
        keep_logs(node, "floor")


@test(boot="hmat", needs=("tierwised", "tierwise"), timeout_s=2400)
def a_cap_and_a_weight_hold(guest: Guest) -> None:
    """A pod with a cap is demoted to it. Of two pods that use their memory alike, the one with four
    times the weight holds more."""
    cap = 48
    with Node(guest) as node:
        crowd(guest)
        capped = {"tierwise.io/cap": f"{cap}Mi"}
        node.start(Pod("capped", stairs(128, 1000), capped), 128)
        node.start(Pod("light", stairs(200, 1000), {"tierwise.io/weight": "50"}), 200)
        node.start(Pod("heavy", stairs(200, 1000), {"tierwise.io/weight": "200"}), 200)
        course = Course(node, "cap-and-weight")
        before = course.row("the daemon starts")
        assert before["capped"] > cap and before["light"] > before["heavy"], before
        daemon = guest.tierwised(config(guest))
        wait_for_tenants(guest, node, daemon)

        def shared() -> bool:
            row = course.row()
            return row["capped"] <= cap * 1.05 and row["heavy"] > 1.3 * row["light"]

        def saying() -> str:
            said = f"{course.rows[-1]}; {told(guest)}; {node.describe()}"
            return f"{said}; {daemon.printed()[-1500:]}"

        guest.figure("seconds", guest.wait_until(shared, PATIENCE_S, saying, every_s=EVERY_S))
        guest.figure("after", json.dumps(course.row()))


@test(boot="hmat", needs=("tierwised", "tierwise"), timeout_s=2400)
def a_redis_pods_slo_gets_memory(guest: Guest) -> None:
    """A Redis pod in the host's network, whose P99 is above its SLO, gets the fast memory that a
    greedy pod has."""
    server = ["redis-server", "--save", "", "--port", "6379", "--bind", "127.0.0.1"]
    load = ["kvload", "store=redis", "port=6379", "keys=24000", "value_bytes=4000", "pipeline=16"]
    slo = {"tierwise.io/p99": "50us", "tierwise.io/latency": "redis:6379"}
    with Node(guest) as node:
        crowd(guest)
        node.start(Pod("greedy", stairs(400, 1000)), 400)
        node.start(Pod("redis", server, slo, host_network=True), 1)
        listens = ("kvload", "store=redis", "port=6379", "keys=1")
        guest.wait_until(
            lambda: guest.start(*listens).wait(60) == 0, PATIENCE_S, node.describe, every_s=1
        )
        guest.run(*load, within_s=300)
        client = guest.start(*load, "load=0", "draw=hotspot", "requests=1000000000")
        course = Course(node, "slo")
        before = course.row("the daemon starts")
        daemon = guest.tierwised(config(guest))
        wait_for_tenants(guest, node, daemon)
        guest.figure("fast_before_mib", before["redis"])
        guest.figure("seconds", course.until(daemon, "redis", before["redis"] + 48))
        row = tenants(guest)["shop/redis-lab"]
        guest.figure("fast_after_mib", course.row()["redis"])
        guest.figure("p99_ms", row["p99_ms"])
        assert row["slo_ms"] == 0.05 and row["class"] == "latency-critical", row
        assert not row["latency_problem"] and not row["pod"]["problems"], row
        assert client.running(), client.printed()
