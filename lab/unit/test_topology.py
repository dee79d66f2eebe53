"""Tests of the nodes' physical addresses in q35's memory layout."""

import unittest

from tierlab.errors import LabError
from tierlab.guest import counters_bytes
from tierlab.mode import Mode
from tierlab.topology import GIB, MIB, TOPOLOGIES, topology


class PhysicalRanges(unittest.TestCase):
    def test_small_machines_have_one_memory_block(self) -> None:
        ranges = topology("hmat").sized(1024, 512).physical_ranges()
        self.assertEqual(ranges, [[(0, GIB)], [(GIB, GIB + 512 * MIB)]])

    def test_large_machines_are_split_at_2_gib(self) -> None:
        ranges = topology("hmat").sized(1024, 3072).physical_ranges()
        self.assertEqual(ranges, [[(0, GIB)], [(GIB, 2 * GIB), (4 * GIB, 6 * GIB)]])

    def test_every_byte_has_one_node(self) -> None:
        for machine in TOPOLOGIES.values():
            pieces = sorted(piece for ranges in machine.physical_ranges() for piece in ranges)
            self.assertEqual(sum(end - start for start, end in pieces), sum(machine.node_mib) * MIB)
            for (_, end), (start, _) in zip(pieces, pieces[1:]):
                self.assertLessEqual(end, start)

    def test_counters_have_room_for_every_page(self) -> None:
        machine = topology("hmat").sized(1024, 3072)
        self.assertEqual(counters_bytes(machine), 8 * MIB)
        self.assertGreaterEqual(counters_bytes(machine), 4096 + 4 * (machine.memory_end() // 4096))


class Arguments(unittest.TestCase):
    def test_hmat_tells_each_node_s_latency(self) -> None:
        words = topology("hmat").arguments(2)
        reported = [word for word in words if "data-type=access-latency" in word]
        self.assertEqual([word.rpartition("=")[2] for word in reported], ["90", "220"])

    def test_without_hmat_nothing_is_told(self) -> None:
        self.assertFalse(
            [
                word
                for word in topology("flat").arguments(2)
                if "hmat" in word or "initiator" in word
            ]
        )

    def test_function_mode_watches_no_access(self) -> None:
        words = Mode().arguments("plugin", topology("hmat"), "counters")
        self.assertNotIn("node=", words[-1])
        self.assertIn("flush_us=", words[-1])

    def test_wrong_sizes_and_names_are_refused(self) -> None:
        with self.assertRaisesRegex(LabError, "2 nodes; 1 sizes"):
            topology("hmat").sized(1024)
        with self.assertRaisesRegex(LabError, "hmat, flat, single, cxl"):
            topology("numa")


if __name__ == "__main__":
    unittest.main()
