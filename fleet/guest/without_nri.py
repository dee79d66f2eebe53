"""Tests of a node whose runtime has NRI switched off, as Debian's has by default."""

import signal

from daemon_of_pods import CRI, config, tenants, view, wait_for_tenants
from kube import MIB, PATIENCE_S, Node, Pod, keep_logs
from sharing import stairs
from tierguest import Guest, test


@test(boot="hmat", needs=("tierwised", "tierwise"), timeout_s=2400)
def pods_are_tenants_by_cri(guest: Guest) -> None:
    """The daemon learns pods with their annotations from the CRI service, says so with the reason,
    and follows pods that come and go and a containerd that is restarted."""
    with Node(guest, nri=False) as node:
        node.start(Pod("held", stairs(32, 20_000), {"tierwise.io/floor": "24Mi"}, limit_mib=64), 32)
        server = ["redis-server", "--save", "", "--port", "6379", "--bind", "127.0.0.1"]
        slo = {"tierwise.io/p99": "5ms", "tierwise.io/latency": "redis:6379"}
        node.start(Pod("redis", server, slo, host_network=True), 1)
        daemon = guest.tierwised(config(guest, cri=CRI))
        guest.figure("known_s", wait_for_tenants(guest, node, daemon))
        pods = view(guest)["pods"]
        assert pods["source"] == "cri" and pods["in_step"], pods
        assert "is NRI switched on in the runtime?" in pods["source_reason"], pods
        status = guest.run("tierwise", "status", "--socket", str(guest.directory / "control.sock"))
        assert "by CRI of containerd" in " ".join(status.split()), status
        rows = tenants(guest)
        held, redis = rows["shop/held-lab"], rows["shop/redis-lab"]
        assert held["tiers"][0]["floor_bytes"] == 24 * MIB and held["processes"] >= 1, held
        assert held["pod"]["qos_class"] == "Burstable" and not held["pod"]["problems"], held
        assert redis["slo_ms"] == 5 and not redis["pod"]["problems"], redis
        node.add(Pod("late", stairs(16, 20_000)))
        guest.figure("late_known_s", wait_for_tenants(guest, node, daemon))
        node.forget("held")
        guest.figure("ended_s", wait_for_tenants(guest, node, daemon))
        assert node.containerd
        node.containerd.signal(signal.SIGTERM)
        node.containerd.process.wait(60)
        guest.wait_until(lambda: not view(guest)["pods"]["in_step"], PATIENCE_S, "in step")
        assert set(tenants(guest)) == {"shop/redis-lab", "shop/late-lab"}, tenants(guest)
        node.start_containerd()
        guest.wait_until(lambda: view(guest)["pods"]["in_step"], PATIENCE_S, daemon.printed)
        keep_logs(node, "without-nri")
