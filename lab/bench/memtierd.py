"""memtierd, another daemon that moves pages between nodes, with its own program.

It is no package of Debian's, so whoever wants it in the table builds it from its sources (Go) and
names the file (`--memtierd`). The configurations are its sample configurations "age-softdirty" and
"heat-idlepage". They differ from these in four points: all times are a tenth, because runs are
short; the cgroup and the nodes; heat by soft-dirty bits too, because Debian's cloud kernels have no
idle-page bitmap; regions of 64 pages instead of 256 or 512, because programs have some 100 MiB.
Its tracker by DAMON needs bpftrace or perf, which the guest does not have.

Soft-dirty bits show stores only, so memory that is only read counts as idle.
"""

from pathlib import Path

from tierguest import Guest
from tierguest.cgroup import Cgroup
from tierguest.program import Program

# In the job's directory, where the bench starts.
FILE = Path("memtierd")

AGE = """\
policy:
  name: age
  config: |
    intervalms: 500
    idledurationms: 1500
    idlenumas: [1]
    activedurationms: 1000
    activenumas: [0]
"""
HEAT = """\
policy:
  name: heat
  config: |
    intervalms: 1000
    heatnumas:
      0: [1]
      3: [0]
    heatmap:
      heatmax: 0.001
      heatretention: 0.9
      heatclasses: 4
"""
# Both policies find the program, its stores and its regions in the same way.
COMMON = """\
    pidwatcher:
      name: cgroups
      config: |
        cgroups:
          - {group}
    tracker:
      name: softdirty
      config: |
        pagesinregion: 64
        maxcountperregion: 0
        scanintervalms: 400
        regionsupdatems: 0
    mover:
      intervalms: 20
      bandwidth: 200
"""
CONFIGURATIONS = {"memtierd-age": AGE, "memtierd-heat": HEAT}


def start_memtierd(guest: Guest, group: Cgroup, policy: str) -> Program:
    """Starts memtierd with a policy for the processes of a group. Raises AssertionError if the
    guest has no memtierd."""
    program = Path(__file__).resolve().parents[1] / FILE
    assert program.exists(), "the bench was started without --memtierd"
    config = guest.directory / "memtierd.yaml"
    config.write_text(CONFIGURATIONS[policy] + COMMON.format(group=group.path))
    return guest.start(str(program), "-config", str(config))
