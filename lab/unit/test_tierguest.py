"""Tests of the parts of the guest's helper library that need no guest."""

import sys
import tempfile
import unittest
from pathlib import Path

from tierlab.paths import LAB

sys.path.insert(0, str(LAB / "guest"))
from tierguest.ballast import free_pages  # noqa: E402
from tierguest.damon import Region  # noqa: E402
from tierguest.files import node_table, table, write  # noqa: E402
from tierguest.placement import Placement  # noqa: E402
from tierguest.settings import restore, value  # noqa: E402
from tierguest.stairs import Truth  # noqa: E402
from tierguest.wait import wait_until  # noqa: E402

ZONE = """Node {node}, zone {zone}
  pages free     {free}
        boost    0
  pagesets
    cpu: 0
              count: {first}
              high:  500
    cpu: 1
              count: {second}
"""


class FreePages(unittest.TestCase):
    def test_per_cpu_lists_are_free_memory(self) -> None:
        zones = ((0, "DMA", 10, 0, 0), (0, "DMA32", 100, 20, 3), (1, "Normal", 4000, 500, 60))
        keys = ("node", "zone", "free", "first", "second")
        text = "".join(ZONE.format(**dict(zip(keys, zone, strict=True))) for zone in zones)
        self.assertEqual([free_pages(text, node) for node in (0, 1)], [133, 4560])


class ControlFiles(unittest.TestCase):
    def setUp(self) -> None:
        self.file = Path(self.enterContext(tempfile.TemporaryDirectory())) / "file"

    def test_parses_tables_of_control_files(self) -> None:
        self.file.write_text("pgdemote_kswapd 3\npgpromote_success 4\n")
        self.assertEqual(table(self.file), {"pgdemote_kswapd": 3, "pgpromote_success": 4})
        self.file.write_text("anon N0=4096 N1=8192\nfile N0=0 N1=0\n")
        self.assertEqual(node_table(self.file)["anon"], [4096, 8192])

    def test_a_choice_is_the_word_in_brackets(self) -> None:
        self.file.write_text("always [madvise] never\n")
        self.assertEqual(value(self.file), "madvise")

    def test_settings_are_written_back_where_they_differ(self) -> None:
        self.file.write_text("2")
        restore({self.file: "0"})
        self.assertEqual(value(self.file), "0")

    def test_a_missing_file_is_named(self) -> None:
        with self.assertRaisesRegex(OSError, "file"):
            write(self.file.parent / "absent" / "file", 1)


class Ranges(unittest.TestCase):
    def test_cold_excludes_the_hot_part(self) -> None:
        self.assertEqual(Truth(0, (1000, 100), (1020, 10)).cold(), [(1000, 20), (1030, 70)])
        self.assertEqual(Truth(0, (1000, 100), (1000, 10)).cold(), [(1010, 90)])
        self.assertEqual(Truth(0, (1000, 100), (1090, 10)).cold(), [(1000, 90)])

    def test_regions_overlap_with_a_range(self) -> None:
        region = Region(100, 200, 5, 0)
        pieces = ((0, 100), (0, 150), (150, 10), (190, 50))
        self.assertEqual([region.overlap(*piece) for piece in pieces], [0, 50, 10, 10])

    def test_shares_count_present_pages_only(self) -> None:
        self.assertEqual(Placement((3, 1), 96).share(0), 0.75)
        self.assertEqual(Placement((0, 0), 4).share(0), 0.0)
        self.assertEqual(Placement((3, 1), 2) + Placement((1, 1), 1), Placement((4, 2), 3))


class Waiting(unittest.TestCase):
    def test_what_never_comes_is_explained(self) -> None:
        with self.assertRaisesRegex(AssertionError, "not within 0 s: 3 of 4 pages"):
            wait_until(lambda: False, 0, lambda: "3 of 4 pages", every_s=0.001)


if __name__ == "__main__":
    unittest.main()
