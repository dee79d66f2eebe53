"""Tests of the operator's commands on a live machine."""

import json

from tierguest import Guest, test
from tierguest.configuration import configuration
from tierguest.damon import DAMON_STAT, taken_places
from tierguest.files import read

ALL_MIB = 64
HOT_MIB = 12
SCENARIO = """\
name = "recorded"
summary = "What DAMON saw of a program whose last part is hot"

[machine]
preset = "dram-cxl"
fast_share = 0.3

[[workload]]
name = "recorded"
trace = "{trace}"
"""


@test(boot="hmat", needs=("tierwise",), timeout_s=400)
def a_live_program_is_recorded_and_replayed(guest: Guest) -> None:
    """record-live, then compare: a policy that follows hot pages beats first touch."""
    stairs = guest.stairs(
        mib=ALL_MIB, hot_mib=HOT_MIB, hot_at_mib=ALL_MIB - HOT_MIB, pattern="fixed", forget=1
    )
    before = (read(DAMON_STAT) if DAMON_STAT.exists() else "", taken_places())
    trace, scenario = guest.directory / "live.twt", guest.directory / "recorded.toml"
    guest.run(
        "tierwise", "record-live", "-o", str(trace), "--pid", str(stairs.pid),
        "--duration", "20s", "--release-damon", "--state", str(guest.directory / "state"),
        within_s=200,
    )  # fmt: skip
    assert (read(DAMON_STAT) if DAMON_STAT.exists() else "", taken_places()) == before, (
        "DAMON is not restored"
    )
    stat = json.loads(guest.run("tierwise", "trace", "stat", str(trace), "--json", within_s=200))
    guest.figure("windows", len(stat["windows"]))
    scenario.write_text(SCENARIO.format(trace=trace))
    words = (
        "tierwise",
        "compare",
        str(scenario),
        "--policies",
        "static,clock,memtis,tierwise",
        "--json",
    )
    results = json.loads(guest.run(*words, within_s=300))["results"]
    shares = {result["policy"]: result["fast_access_ratio"] for result in results}
    for policy, share in shares.items():
        guest.figure(f"{policy}_fast_share".replace("-", "_"), share)
    assert shares["tierwise"] > shares["static"] + 0.2, (
        f"on the recording tierwise gains too little over static: {shares}"
    )


@test(boot="hmat", needs=("tierwise",), timeout_s=120, smoke=True)
def doctor_finds_a_manageable_machine(guest: Guest) -> None:
    """Two tiers, DAMON, root: doctor reports that tierwised could manage this, and names tiers,
    kernel and tenants."""
    config = guest.directory / "tierwised.toml"
    config.write_text(
        configuration(guest, "tierwise", [("shop", "cgroup = 'shop'\nfloor = '64MiB'")])
    )
    printed = guest.run("tierwise", "doctor", "--config", str(config))
    assert "tierwised could manage this machine's memory" in printed, printed
    report = json.loads(guest.run("tierwise", "doctor", "--config", str(config), "--json"))
    found = {check["name"]: check for check in report["checks"]}
    assert report["can"] == "manage", report
    assert (
        "node 0" in found["memory tiers"]["found"] and "node 1" in found["memory tiers"]["found"]
    ), found
    assert found["tenant"]["status"] == "note" and "shop" in found["tenant"]["found"], found[
        "tenant"
    ]
