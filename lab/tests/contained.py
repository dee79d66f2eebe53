"""Tests of the daemon with what a container of the chart has: packaging/helm/tierwise."""

import signal

from tierguest import Guest, test
from tierguest.configuration import configuration

# The capabilities of the chart's DaemonSet.
CAPABILITIES = ["DAC_READ_SEARCH", "SYS_NICE", "SYS_PTRACE", "PERFMON", "SETPCAP"]

# A mount and a control group namespace, /proc/sys read-only, no new privileges. The host's numbers
# of processes, its /sys and its control groups remain, as with hostPID and the volume of /sys.
BOUNDING = ",".join(["-all", *(f"+{name.lower()}" for name in CAPABILITIES)])
WITHIN = [
    "unshare",
    "--mount",
    "--cgroup",
    "sh",
    "-c",
    "mount --make-rprivate / && mount --bind /proc/sys /proc/sys && "
    "mount -o remount,bind,ro /proc/sys && "
    f'exec setpriv --no-new-privs --inh-caps=-all --bounding-set={BOUNDING} "$@"',
    "sh",
]

# The user "nobody" of Debian.
NOBODY = 65534

# An idle host needs seconds, and a busy one's guests get less CPU time.
LIMIT_S = 300


@test(boot="hmat", needs=("tierwised",), timeout_s=400)
def contained_daemon_places_a_pods_memory(guest: Guest) -> None:
    """In a container that is not privileged the daemon monitors another user's program, moves its
    pages, and leaves nothing of DAMON behind."""
    stairs = guest.stairs(
        guest.cgroup("shop"), user=NOBODY, mib=48, hot_mib=48, pattern="fixed", node=1
    )
    daemon = guest.tierwised(
        configuration(guest, "tierwise", tenants=[("shop", "cgroup = 'shop'")]), within=WITHIN
    )

    def placed() -> bool:
        assert daemon.running(), f"tierwised ended: {daemon.printed()}"
        return stairs.region().share(0) > 0.95

    def saying() -> str:
        return f"{stairs.describe()}; {daemon.printed()[-1500:]}"

    guest.figure("seconds", guest.wait_until(placed, LIMIT_S, saying))
    with open(f"/proc/{daemon.pid}/status", encoding="ascii") as status:
        lines = {name: value.strip() for name, _, value in (line.partition(":") for line in status)}
    # CAP_SYS_ADMIN is 21: the daemon has placed the pages without it.
    assert not int(lines["CapBnd"], 16) >> 21 & 1, lines["CapBnd"]
    assert lines["NoNewPrivs"] == "1", lines["NoNewPrivs"]
    daemon.signal(signal.SIGTERM)
    assert daemon.process.wait(60) == 0, daemon.printed()
    threads = guest.run("sh", "-c", "cat /sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds")
    assert threads.strip() == "0", threads
