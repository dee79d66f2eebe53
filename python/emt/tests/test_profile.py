"""Profiles of allocation sites: what they record, and what a later run does with them."""

import json
import os
from pathlib import Path

import pytest
from conftest import Program
from tierwise.emt.errors import Unavailable
from tierwise.emt.profile import Profile, Site, matter, tiers_for
from tierwise.emt.support import free_threaded
from tierwise.emt.topology import Topology

with_heaps = pytest.mark.skipif(
    free_threaded(), reason="the test below has the refusal of builds without the lock"
)

#: Two lines allocate alike, and the objects of one of them are used.
TWO_LINES = """
import sys
import time

class Record:
    __slots__ = ("n",)

def idle(count):
    return [Record() for _ in range(count)]

def used(count):
    return [Record() for _ in range(count)]

idle_records, used_records = [], []
for _ in range(100):
    idle_records += idle(400)
    used_records += used(100)
end = time.process_time() + float(sys.argv[1])
while time.process_time() < end:
    for record in used_records:
        record.n = 1
"""


def written(directory: Path) -> tuple[Path, Path]:
    """Writes the program and returns it, and the place of its profile."""
    script = directory / "two_lines.py"
    script.write_text(TWO_LINES)
    return script, directory / "sites.json"


def _under(profile: Path, script: Path) -> str:
    """Returns a program that runs the script under a profile, and checks the heaps of its lines."""
    return f"""
import runpy, sys
import tierwise.emt as emt
emt.segregate(profile={str(profile)!r})
sys.argv = ["two_lines.py", "0"]
found = runpy.run_path({str(script)!r})
for name, heap in (("idle_records", "cold"), ("used_records", "hot")):
    heaps = [emt.heap_of(record) for record in found[name]]
    assert heaps.count(heap) > 0.99 * len(heaps), (name, heap, set(heaps))
"""


@with_heaps
def test_a_recording_ranks_lines_and_a_later_run_follows_it(
    program: Program, tmp_path: Path
) -> None:
    script, profile = written(tmp_path)
    program(
        f"""
        import sys
        from tierwise.emt.__main__ import main
        sys.argv = ["emt", "profile", "-o", {str(profile)!r}, {str(script)!r}, "3"]
        main()
        """
    )
    idle, used = (
        next(n for n, line in enumerate(TWO_LINES.split("\n"), 1) if f"def {name}" in line) + 1
        for name in ("idle", "used")
    )
    # Until 3.11 the comprehension is a function of its own, on the same line.
    size, uses = (
        {
            line: sum(
                site[field]
                for site in json.loads(profile.read_text())["sites"]
                if (site["file"], site["line"]) == (str(script), line)
            )
            for line in (idle, used)
        }
        for field in ("bytes", "uses")
    )
    assert size[idle] > 3 * size[used]
    assert uses[used] / size[used] > 5 * uses[idle] / size[idle]
    program(
        _under(profile, script)
        + """
class Other:
    pass
assert emt.heap_of(Other()) is None
"""
    )


#: Allocates some objects by each of many lines, and many by one.
MANY_LINES = "\n".join(
    [
        "import sys, time",
        "kept = []",
        *(f"kept.append([object(), {n}])" for n in range(2000)),
        "end = time.process_time() + float(sys.argv[1])",
        "data = [[n] for n in range(400_000)]",
        "while time.process_time() < end:",
        "    for item in data: item[0] += 1",
    ]
)


@with_heaps
def test_a_profile_has_the_bytes_of_blocks_and_the_lines_that_matter(
    program: Program, tmp_path: Path
) -> None:
    script, profile = tmp_path / "many_lines.py", tmp_path / "sites.json"
    script.write_text(MANY_LINES)
    program(
        f"""
        import sys
        from tierwise.emt.__main__ import main
        sys.argv = ["emt", "profile", "-o", {str(profile)!r}, {str(script)!r}, "3"]
        main()
        """
    )
    sites = json.loads(profile.read_text())["sites"]
    # Each of the many lines has a page or two of its own, and together they would have
    # a quarter of the data. What their blocks have is not a hundredth of it.
    assert len(sites) < 200
    line = 1 + next(n for n, text in enumerate(MANY_LINES.split("\n")) if "data =" in text)
    # 400,000 lists with a table of one pointer, and numbers; and the list of all.
    data = sum(
        site["bytes"] for site in sites if (site["file"], site["line"]) == (str(script), line)
    )
    assert 20e6 < data < 80e6
    # It makes a million blocks, and takes three seconds.
    assert 0.0 < json.loads(profile.read_text())["cost"] < 1.0
    others = sum(site["bytes"] for site in sites) - data
    assert others < 0.5 * data, others


@with_heaps
def test_lines_of_a_large_profile_have_their_heaps(program: Program, tmp_path: Path) -> None:
    script, profile = written(tmp_path)
    idle, used = (
        next(n for n, line in enumerate(TWO_LINES.split("\n"), 1) if f"def {name}" in line) + 1
        for name in ("idle", "used")
    )
    # Names of the same length and lines of the same numbers, as a large program has.
    names = [*(str(tmp_path / f"lines_{n:03}.py") for n in range(300)), str(script)]
    sites = [
        Site(name, "f", line, 100.0, float(line == used)) for name in names for line in range(99)
    ]
    times = {str(script): os.stat(script).st_mtime_ns}
    Profile(tuple(sites), times).write(profile)
    program(_under(profile, script))


@pytest.mark.skipif(not free_threaded(), reason="this build has the lock")
def test_a_build_without_the_lock_refuses_heaps(program: Program) -> None:
    done = program("import tierwise.emt as emt; emt.segregate()", check=False)
    assert "Unavailable: a free-threaded interpreter finds its objects" in done.stderr


@with_heaps
def test_the_environment_names_a_profile(program: Program, tmp_path: Path) -> None:
    script, profile = written(tmp_path)
    lines = TWO_LINES.split("\n")
    line = next(n for n, text in enumerate(lines, 1) if "def idle" in text) + 1
    sites = (Site(str(script), "idle", line, 1e9, 0.0), Site(str(script), "x", 1, 1e6, 1.0))
    Profile(sites, {str(script): os.stat(script).st_mtime_ns}).write(profile)
    program(
        f"""
        import runpy, sys
        import tierwise.emt as emt
        sys.argv = ["two_lines.py", "0"]
        found = runpy.run_path({str(script)!r})
        assert emt.heap_of(found["idle_records"][-1]) == "cold"
        assert emt.heap_of(found["used_records"][-1]) is None
        """,
        TIERWISE_EMT="1",
        TIERWISE_EMT_PROFILE=str(profile),
    )
    done = program("print(1)", TIERWISE_EMT="1", TIERWISE_EMT_PROFILE=str(script))
    assert done.stdout == "1\n"
    assert "no heaps" in done.stderr and "is no profile" in done.stderr


def test_lines_of_a_file_that_was_modified_since_have_no_heap(tmp_path: Path) -> None:
    same, other = tmp_path / "same.py", tmp_path / "other.py"
    for file in (same, other):
        file.write_text("x = 1\n")
    sites = tuple(Site(str(file), "f", 1, 100.0, 1.0) for file in (same, other))
    times = {str(file): os.stat(file).st_mtime_ns for file in (same, other)}
    times[str(other)] += 1
    assert set(Profile(sites, times).tiers()) == {(str(same), 1)}


def test_as_many_lines_are_hot_as_fit() -> None:
    sites = tuple(Site("gone.py", "f", n, 100.0, float(n)) for n in range(10))
    profile = Profile(sites, {})
    for fast, hot in ((0.0, 1), (250.0, 2), (1000.0, 10)):
        tiers = profile.tiers(fast)
        assert [line for (_, line), tier in tiers.items() if tier == 2] == [
            9 - n for n in range(hot)
        ]


def test_a_line_that_does_not_fit_leaves_its_place_to_the_next() -> None:
    sites = (
        Site("a", "f", 1, 900.0, 99.0),
        Site("a", "f", 2, 50.0, 5.0),
        Site("a", "f", 3, 90.0, 1.0),
    )
    assert Profile(sites, {}).tiers(120.0) == {("a", 1): 1, ("a", 2): 2, ("a", 3): 1}


def test_lines_that_matter_have_nearly_all_bytes_and_uses() -> None:
    small = [Site("a", "f", n, 1.0, 1e-3) for n in range(100)]
    hot, cold = Site("a", "f", 200, 50.0, 1e3), Site("a", "f", 300, 20e3, 0.0)
    assert set(matter([*small, hot, cold])) == {hot, cold}
    assert set(matter([*small, hot])) >= {hot} and len(matter([*small, hot])) > 90
    assert matter([]) == ()


def test_a_profile_whose_heaps_cost_more_than_the_budget_chooses_no_heap(tmp_path: Path) -> None:
    profile = tmp_path / "sites.json"
    sites = (Site("a", "f", 1, 40e3, 9.0), Site("a", "f", 2, 400e3, 0.0))
    Profile(sites, {}, cost=0.03).write(profile)
    assert tiers_for(profile, None, 0, 0.02) is None
    assert tiers_for(profile, None, 0, 0.04) == {("a", 1): 2, ("a", 2): 1}


def test_a_run_gives_lines_what_is_free_on_its_fast_nodes(tmp_path: Path) -> None:
    node = tmp_path / "node0"
    node.mkdir()
    (node / "meminfo").write_text("Node 0 MemFree: 100 kB\n")
    profile = tmp_path / "sites.json"
    sites = (Site("a", "f", 1, 40e3, 9.0), Site("a", "f", 2, 50e3, 8.0), Site("a", "f", 3, 3e4, 0))
    Profile(sites, {}).write(profile)
    topology = Topology(fast=(0,), slow=(1,), root=str(tmp_path))
    # 102,400 bytes less 10,000.
    assert tiers_for(profile, topology, 10_000, 0.02) == {("a", 1): 2, ("a", 2): 2, ("a", 3): 1}


@pytest.mark.parametrize(
    ("cold_bytes", "cold_uses"),
    [
        (1e3, 0.0),  # all of it fits in fast memory
        (200e3, 44.0),  # one line is as hot as the other
    ],
)
def test_a_profile_without_promise_chooses_no_heap(
    tmp_path: Path, cold_bytes: float, cold_uses: float
) -> None:
    node = tmp_path / "node0"
    node.mkdir()
    (node / "meminfo").write_text("Node 0 MemFree: 100 kB\n")
    profile = tmp_path / "sites.json"
    sites = (Site("a", "f", 1, 40e3, 9.0), Site("a", "f", 2, cold_bytes, cold_uses))
    Profile(sites, {}).write(profile)
    topology = Topology(fast=(0,), slow=(1,), root=str(tmp_path))
    assert tiers_for(profile, topology, 0, 0.02) is None


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version": 2}', '{"version": 1}', '{"version": 2, "sites": 3}']
)
def test_what_is_no_profile_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "sites.json"
    file.write_text(text)
    with pytest.raises(Unavailable, match=r"sites\.json"):
        Profile.read(file)
