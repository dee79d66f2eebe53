"""Tests of what fails on a node: every pod starts, and the tenants are right afterwards."""

import signal

from daemon_of_pods import config, view, wait_for_tenants
from kube import PATIENCE_S, Node, Pod, keep_logs
from sharing import stairs
from tierguest import Guest, test

MIB_EACH = 16


def _pod(number: int) -> Pod:
    return Pod(f"web-{number}", stairs(MIB_EACH, 20_000), {"tierwise.io/weight": str(number + 1)})


def _all_run(guest: Guest, node: Node) -> float:
    """Waits until every pod has its memory. Returns the seconds that it took."""

    def there() -> bool:
        return all(sum(node.on_nodes(pod)) >= MIB_EACH << 20 for pod in node.pods.values())

    return guest.wait_until(there, PATIENCE_S, node.describe, every_s=1)


@test(boot="hmat", needs=("tierwised", "tierwise"), timeout_s=2400)
def pods_start_while_the_daemon_is_killed(guest: Guest) -> None:
    """Pods start although the daemon is killed meanwhile, and its successor knows all of them."""
    with Node(guest) as node:
        node.start(_pod(0), MIB_EACH)
        daemon = guest.tierwised(config(guest))
        wait_for_tenants(guest, node, daemon)
        for number in (1, 2):
            node.add(_pod(number))
        # The kubelet reads its directory once a second, so the pods' sandboxes are under way.
        guest.wait_until(lambda: len(node.tasks()) > 2, PATIENCE_S, node.describe, every_s=0.2)
        daemon.kill()
        guest.figure("start_s", _all_run(guest, node))
        successor = guest.tierwised(config(guest))
        guest.figure("known_s", wait_for_tenants(guest, node, successor))
        node.forget("web-1")
        guest.figure("ended_s", wait_for_tenants(guest, node, successor))


@test(boot="hmat", needs=("tierwised", "tierwise"), timeout_s=2400)
def pods_start_while_the_daemon_hangs(guest: Guest) -> None:
    """Pods start and end beside a daemon that hangs, which knows them when it runs again."""
    with Node(guest) as node:
        node.start(_pod(0), MIB_EACH)
        node.start(_pod(1), MIB_EACH)
        daemon = guest.tierwised(config(guest))
        wait_for_tenants(guest, node, daemon)
        daemon.signal(signal.SIGSTOP)
        node.forget("web-1")
        for number in (2, 3):
            node.add(_pod(number))
        guest.figure("start_s", _all_run(guest, node))
        daemon.signal(signal.SIGCONT)
        guest.figure("known_s", wait_for_tenants(guest, node, daemon))


@test(boot="hmat", needs=("tierwised", "tierwise"), timeout_s=2400)
def tenants_follow_a_restarted_containerd(guest: Guest) -> None:
    """containerd is restarted, once in order and once killed: pods run on, remain tenants, and the
    daemon learns those that start later."""
    with Node(guest) as node:
        first = node.start(_pod(0), MIB_EACH)
        daemon = guest.tierwised(config(guest))
        wait_for_tenants(guest, node, daemon)
        running = node.processes(first, "stairs")
        for number, how in ((1, signal.SIGTERM), (2, signal.SIGKILL)):
            assert node.containerd
            node.containerd.signal(how)
            node.containerd.process.wait(60)
            guest.wait_until(lambda: not view(guest)["pods"]["in_step"], PATIENCE_S, "in step")
            assert node.processes(first, "stairs") == running, node.describe()
            node.start_containerd()
            node.add(_pod(number))
            _all_run(guest, node)
            guest.figure(f"{how.name}_known_s", wait_for_tenants(guest, node, daemon))
            assert view(guest)["pods"]["in_step"], view(guest)["pods"]
        assert node.processes(first, "stairs") == running, node.describe()
        keep_logs(node, "restart")
