"""The machines that the lab emulates: their memory nodes, how these are described to the kernel,
and the cost of a miss."""

from dataclasses import dataclass, field, replace

from .errors import LabError

MIB = 1 << 20
GIB = 1 << 30
# With at least this much memory, q35 places the part beyond 2 GiB above 4 GiB; with less it places
# all memory below.
SPLIT_ABOVE = 2816 * MIB
LOW_WHEN_SPLIT = 2 * GIB


@dataclass(frozen=True)
class Topology:
    """A machine. HMAT reports the latencies and bandwidths to the kernel, and timed mode charges
    the latencies."""

    name: str
    about: str
    node_mib: tuple[int, ...]
    # The latencies of local DRAM, and of CXL memory behind a switch (Sun et al., MICRO 2023: 2 to 3
    # times DRAM's).
    latency_ns: tuple[int, ...] = (90, 220)
    bandwidth_gbs: tuple[int, ...] = (100, 20)
    hmat: bool = False
    cxl: bool = False
    extra: tuple[str, ...] = field(default=())

    def sized(self, *node_mib: int) -> "Topology":
        """Returns the same machine with nodes of other sizes, in MiB."""
        if len(node_mib) != len(self.node_mib):
            raise LabError(
                f"topology {self.name} has {len(self.node_mib)} nodes; "
                f"{len(node_mib)} sizes were given"
            )
        return replace(self, node_mib=tuple(node_mib))

    def arguments(self, processors: int) -> list[str]:
        """Returns QEMU's arguments for machine, CPUs and memory."""
        machine = "q35" + (",hmat=on" if self.hmat else "") + (",cxl=on" if self.cxl else "")
        # A guest that detects a hypervisor does not flush caches for CXL regions, and refuses to
        # create one.
        processor = "max,-hypervisor" if self.cxl else "max"
        words = [
            "-M",
            machine,
            "-cpu",
            processor,
            "-smp",
            str(processors),
            "-m",
            f"{sum(self.node_mib)}M",
        ]
        for node, mib in enumerate(self.node_mib):
            owner = f",cpus=0-{processors - 1}" if node == 0 else ""
            initiator = ",initiator=0" if self.hmat else ""
            words += ["-object", f"memory-backend-ram,id=node{node},size={mib}M"]
            words += ["-numa", f"node,nodeid={node},memdev=node{node}{owner}{initiator}"]
        for node in range(1, len(self.node_mib)):
            words += ["-numa", f"dist,src=0,dst={node},val=20"]
        return words + (self._hmat() if self.hmat else []) + list(self.extra)

    def _hmat(self) -> list[str]:
        words = []
        for node in range(len(self.node_mib)):
            for kind, value in (
                ("access-latency", f"latency={self.latency_ns[node]}"),
                ("access-bandwidth", f"bandwidth={self.bandwidth_gbs[node]}G"),
            ):
                words += [
                    "-numa",
                    f"hmat-lb,initiator=0,target={node},hierarchy=memory,data-type={kind},{value}",
                ]
        return words

    def physical_ranges(self) -> list[list[tuple[int, int]]]:
        """Returns the physical addresses of each node's memory, as [start, end) in bytes."""
        total = sum(self.node_mib) * MIB
        low = total if total < SPLIT_ABOVE else LOW_WHEN_SPLIT
        ranges = []
        offset = 0
        for mib in self.node_mib:
            start, end = offset, offset + mib * MIB
            below = [(start, min(end, low))] if start < low else []
            above = [(4 * GIB + max(start, low) - low, 4 * GIB + end - low)] if end > low else []
            ranges.append(below + above)
            offset = end
        return ranges

    def memory_end(self) -> int:
        """Returns the end of the highest range, in bytes."""
        return max(end for ranges in self.physical_ranges() for _, end in ranges)


CXL_DEVICE = (
    "-object",
    "memory-backend-ram,id=cxlmemory,size=256M,share=on",
    "-device",
    "pxb-cxl,bus_nr=12,bus=pcie.0,id=cxl.1",
    "-device",
    "cxl-rp,port=0,bus=cxl.1,id=rootport,chassis=0,slot=2",
    "-device",
    "cxl-type3,bus=rootport,volatile-memdev=cxlmemory,id=cxlmem0",
    "-M",
    "cxl-fmw.0.targets.0=cxl.1,cxl-fmw.0.size=4G",
)

TOPOLOGIES = {
    topology.name: topology
    for topology in (
        Topology("hmat", "two nodes, described by HMAT: two memory tiers", (1024, 1024), hmat=True),
        Topology(
            "flat", "two nodes without HMAT: the kernel puts both into one tier", (1024, 1024)
        ),
        Topology("single", "one node", (1024,), latency_ns=(90,), bandwidth_gbs=(100,)),
        Topology(
            "cxl",
            "as hmat, with a 256 MiB CXL type-3 device (emulated as MMIO: slow)",
            (512, 512),
            hmat=True,
            cxl=True,
            extra=CXL_DEVICE,
        ),
    )
}


def topology(name: str) -> Topology:
    """Returns the machine of that name."""
    if name not in TOPOLOGIES:
        raise LabError(f"--topology {name}: no such machine; one of: {', '.join(TOPOLOGIES)}")
    return TOPOLOGIES[name]
