"""Tests of the interface for users."""

import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest
import tierwise.emt as emt
from conftest import HANGS_AFTER_S, Program
from protection import protected_mappings
from tierwise.emt import support
from tierwise.emt.settings import Settings, bytes_of
from tierwise.emt.topology import tiers
from tierwise.emt.tracking import Tracking

QUICK = 0.02


def wait_for(condition: Callable[[], bool]) -> None:
    """Uses memory until a condition holds."""
    end = time.monotonic() + HANGS_AFTER_S
    while not condition():
        assert time.monotonic() < end, emt.stats()
        _ = [bytearray(100) for _ in range(1000)]


def test_a_tracked_block_leaves_nothing_behind() -> None:
    threads = threading.active_count()
    with emt.tiering(sample_interval=QUICK, overhead_budget=0.5) as tracked:
        assert threads == threading.active_count()
        wait_for(lambda: tracked.stats().intervals > 8 and tracked.stats().pages_tracked > 100)
        assert protected_mappings() > 0
        assert tracked.stats().active
    stats = tracked.stats()
    assert not stats.active
    assert stats.reason == "ended"
    assert stats.thread_s > 0
    assert 0 < stats.memory_bytes
    assert protected_mappings() == 0
    assert threads == threading.active_count()


def test_unpaired_start_and_end_are_refused() -> None:
    with pytest.raises(emt.NotTracking):
        emt.end()
    emt.start()
    with pytest.raises(emt.AlreadyTracking, match="end it first"):
        emt.start()
    emt.end()
    with pytest.raises(emt.NotTracking):
        emt.end()


def test_another_copy_of_the_module_does_not_track_too(program: Program) -> None:
    printed = program(
        """
        import importlib, sys
        import tierwise.emt as emt, tierwise.emt.process as process
        emt.start()
        importlib.reload(process)
        try:
            process.PROCESS.start(emt.Settings())
        except Exception as error:
            print(error)
        for name in [name for name in sys.modules if name.startswith("tierwise")]:
            del sys.modules[name]
        import tierwise.emt as again
        try:
            again.start()
        except again.AlreadyTracking as error:
            print(error)
        emt.end()
        again.start()
        print(again.end().reason)
        """
    )
    first, second, end = printed.stdout.splitlines()
    assert first.startswith("another copy of tierwise.emt tracks this process")
    assert second == first
    assert end == "ended"


def test_tracking_that_still_ends_is_no_missing_kernel(program: Program) -> None:
    printed = program(
        """
        import threading, tierwise.emt as emt
        refused = set()
        def often():
            for _ in range(100):
                try:
                    emt.start(emt.Settings(sample_interval=0.01))
                except emt.EmtError as error:
                    refused.add(type(error).__name__)
                try:
                    emt.end()
                except emt.NotTracking:
                    pass
        threads = [threading.Thread(target=often) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        print(refused - {"AlreadyTracking"})
        """
    )
    assert printed.stdout.strip() == "set()"


def test_an_exception_goes_through_the_block() -> None:
    with pytest.raises(ZeroDivisionError), emt.tiering(sample_interval=QUICK):
        raise ZeroDivisionError
    assert protected_mappings() == 0


def test_a_block_may_end_tracking_itself() -> None:
    with emt.tiering():
        emt.end()
    assert not emt.stats().active


def test_the_callback_gets_stats() -> None:
    got: list[emt.Stats] = []
    with emt.tiering(sample_interval=QUICK, overhead_budget=1.0, callback=got.append):
        wait_for(lambda: len(got) > 1)
    assert got[-1].intervals % 4 == 0


def test_the_callback_is_called_once_for_an_interval_and_its_time_counts() -> None:
    took_s = 0.02
    got: list[emt.Stats] = []

    def take(stats: emt.Stats) -> None:
        got.append(stats)
        end = time.thread_time() + took_s
        while time.thread_time() < end:
            pass

    # So little is allowed that tracking pauses after each call.
    with emt.tiering(sample_interval=QUICK, overhead_budget=0.2, callback=take) as tiering:
        wait_for(lambda: len(got) > 4)
        stats = tiering.stats()
    intervals = [one.intervals for one in got]
    assert intervals == sorted(set(intervals))
    assert stats.rested > 0
    assert stats.thread_s > 4 * took_s


def test_a_failing_callback_ends_only_tracking(program: Program) -> None:
    printed = program(
        """
        import time, tierwise.emt as emt
        def fail(stats): raise KeyError("mine")
        with emt.tiering(sample_interval=0.02, overhead_budget=1.0, callback=fail) as t:
            while t.stats().active:
                sum(range(10000))
        print(t.stats().reason)
        """
    )
    assert printed.stdout.strip() == "KeyError: 'mine'"
    assert "stopped tracking" in printed.stderr


def test_ending_from_the_callback_is_refused(program: Program) -> None:
    printed = program(
        """
        import tierwise.emt as emt
        def end(stats): emt.end()
        with emt.tiering(sample_interval=0.02, overhead_budget=1.0, callback=end) as t:
            while t.stats().active:
                sum(range(10000))
        print(t.stats().reason)
        """
    )
    assert "do it in another thread" in printed.stdout


class Marked:
    """A type of the program with many objects."""


def test_reports_are_drawn_as_html_and_png(tmp_path: Path) -> None:
    marked = [Marked() for _ in range(200_000)]
    with emt.tiering(sample_interval=QUICK, overhead_budget=1.0) as tracked:
        wait_for(
            lambda: tracked.stats().intervals > 20 and bool([thing.__class__ for thing in marked])
        )
    tracked.report(tmp_path / "heat.html")
    text = (tmp_path / "heat.html").read_text(encoding="utf-8")
    assert "<svg" in text
    assert "https://" not in text
    assert "<title>" in text
    assert "test_interface.Marked" in text
    tracked.report(tmp_path / "heat.png")
    assert (tmp_path / "heat.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(ValueError, match=r"\.gif"):
        tracked.report(tmp_path / "heat.gif")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["heat.html", "heat.png"]


def test_metrics_are_those_that_are_promised() -> None:
    text = emt.open_metrics(emt.Stats(active=True, promoted=7, overhead=0.015))
    assert "tierwise_emt_pages_promoted_total 7\n" in text
    assert "tierwise_emt_overhead_ratio 0.015\n" in text
    assert text.endswith("# EOF\n")
    for name in ("pages_tracked", "pages_hot", "pages_demoted"):
        assert f"# TYPE tierwise_emt_{name}" in text


@pytest.mark.parametrize(
    ("wrong", "allowed"),
    [
        ({"signal": "psychic"}, "uffd-wp"),
        ({"sample_interval": 0.0}, "0.01 to 60"),
        ({"overhead_budget": 0.0}, "at most 1"),
        ({"mem_pressure": "much"}, "1GiB"),
        ({"mem_pressure": -1}, "1GiB"),
        # Texts and numbers whose product exceeds a float.
        ({"mem_pressure": "1e300TiB"}, "up to 4096TiB"),
        ({"mem_pressure": 10**400}, "up to 4096TiB"),
        ({"mem_pressure": "4097TiB"}, "up to 4096TiB"),
        ({"slow_nodes": (1,), "fast_nodes": (1,)}, "one of them"),
        ({"slow_nodes": (64,)}, "0 to 63"),
        ({"demotion": "never"}, "lazy"),
    ],
)
def test_settings_say_what_is_allowed(wrong: dict[str, object], allowed: str) -> None:
    with pytest.raises(ValueError, match=allowed):
        Settings(**wrong)  # type: ignore[arg-type]


def test_settings_come_from_the_environment() -> None:
    given = {
        "TIERWISE_EMT_SLOW_NODES": "1, 3",
        "TIERWISE_EMT_MEM_PRESSURE": "512MiB",
        "TIERWISE_EMT_OVERHEAD_BUDGET": "0.05",
    }
    settings = Settings.from_environment(given)
    assert (settings.slow_nodes, settings.reserve_bytes, settings.overhead_budget) == (
        (1, 3),
        512 << 20,
        0.05,
    )
    with pytest.raises(ValueError, match="TIERWISE_EMT_SLOW_NODES is 'one'"):
        Settings.from_environment({"TIERWISE_EMT_SLOW_NODES": "one"})
    with pytest.raises(ValueError, match="GiB"):
        bytes_of("3 parsecs")


def test_nodes_are_read_from_sysfs(tmp_path: Path) -> None:
    (tmp_path / "has_memory").write_text("0-1,4\n", encoding="ascii")
    (tmp_path / "node0").mkdir()
    (tmp_path / "node0" / "meminfo").write_text(
        "Node 0 MemTotal: 9 kB\nNode 0 MemFree:    12 kB\n", encoding="ascii"
    )
    topology = tiers((1, 4), (), str(tmp_path))
    assert (topology.fast, topology.slow, topology.free_fast_bytes()) == ((0,), (1, 4), 12288)
    with pytest.raises(emt.Unavailable, match="nodes with memory: 0, 1, 4"):
        tiers((2,), (), str(tmp_path))
    with pytest.raises(emt.Unavailable, match="leave one"):
        tiers((0, 1, 4), (), str(tmp_path))


def test_run_runs_a_program_with_its_words(program: Program, tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(
        "import sys, tierwise.emt as emt\n"
        "print(__name__, sys.argv[1:], emt.stats().active)\n"
        "sys.exit(3)\n",
        encoding="utf-8",
    )
    done = program(
        "",
        "-m",
        "tierwise.emt",
        "run",
        "--metrics",
        str(tmp_path / "metrics"),
        str(script),
        "-x",
        check=False,
    )
    assert done.returncode == 3, done.stderr
    # The fixture's own file is the last argument.
    assert done.stdout.startswith("__main__ ['-x', ")
    assert done.stdout.rstrip().endswith("True")
    assert "tierwise_emt_active 0" in (tmp_path / "metrics").read_text(encoding="utf-8")


def test_run_says_what_is_wrong(program: Program) -> None:
    done = program("print('ran')", "-m", "tierwise.emt", "run", "--slow-nodes", "7", check=False)
    assert done.returncode == 2
    assert "node 7" in done.stderr
    assert "Traceback" not in done.stderr
    assert "ran" not in done.stdout


def test_run_lets_the_programs_own_errors_through(program: Program) -> None:
    done = program("raise ValueError('mine')", "-m", "tierwise.emt", "run", check=False)
    assert done.returncode == 1
    assert "ValueError: mine" in done.stderr


def test_an_environment_variable_switches_it_on(program: Program, tmp_path: Path) -> None:
    text = (
        "import sys; "
        "print('tierwise.emt' in sys.modules and sys.modules['tierwise.emt'].stats().active)"
    )
    assert program(text).stdout.strip() == "False"
    for off in ("0", "false", "No"):
        assert program(text, TIERWISE_EMT=off).stdout.strip() == "False"
    metrics = tmp_path / "metrics"
    assert (
        program(text, TIERWISE_EMT="1", TIERWISE_EMT_METRICS=str(metrics)).stdout.strip() == "True"
    )
    assert "# EOF" in metrics.read_text(encoding="utf-8")


def test_the_environment_never_stops_a_program(program: Program) -> None:
    done = program("print('ran')", TIERWISE_EMT="1", TIERWISE_EMT_SLOW_NODES="9")
    assert done.stdout.strip() == "ran"
    assert "not tracking: slow_nodes names node 9" in done.stderr
    done = program("print('ran')", TIERWISE_EMT="1", TIERWISE_EMT_SIGNAL="psychic")
    assert done.stdout.strip() == "ran"
    assert "psychic" in done.stderr
    done = program("print('ran')", TIERWISE_EMT="1", TIERWISE_EMT_MEM_PRESSURE="1e300TiB")
    assert done.stdout.strip() == "ran"
    assert done.stderr.startswith("tierwise.emt: not tracking: '1e300TiB' is no size")


def test_without_extension_it_only_warns(program: Program) -> None:
    printed = program(
        """
        import importlib.util, sys, warnings
        find = importlib.util.find_spec
        def without(name, *rest):
            return None if name.endswith("._emt") else find(name, *rest)
        importlib.util.find_spec = without
        import tierwise.emt as emt
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with emt.tiering(slow_nodes=[1]) as t:
                pass
        print(t.stats().active, t.stats().reason, len(caught))
        """
    )
    assert printed.stdout.startswith("False tierwise.emt was installed without its extension")
    assert printed.stdout.strip().endswith("1")


def test_an_unknown_interpreter_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 15, 0))
    assert "3.11 to 3.14" in support.unsupported()


def test_tracking_can_pause_and_go_on() -> None:
    tracking = Tracking(Settings(sample_interval=QUICK))
    tracking.pause()
    tracking.pause()
    tracking.resume()
    assert tracking.stats().active
    tracking.end()
    tracking.resume()
    assert not tracking.stats().active


#: Modules that a start must not import: optional ones, and those that cost more than the package.
LATE = (
    "numpy matplotlib gymnasium threading dataclasses difflib html inspect json pathlib statistics "
    "struct"
).split()


def test_start_loads_no_expensive_module(program: Program) -> None:
    printed = program(
        f"""
        import sys
        late = set({LATE!r}) - set(sys.modules)
        import tierwise.emt as emt
        emt.start()
        print(sorted(late & set(sys.modules)))
        emt.end()
        """
    )
    assert printed.stdout.strip() == "[]"


def test_set_up_is_earned_before_the_first_sample(program: Program) -> None:
    # The import and the start cost more than the first intervals may borrow.
    printed = program(
        """
        import time
        before = time.thread_time()
        import tierwise.emt as emt
        emt.start(emt.Settings(overhead_budget=1e-4, sample_interval=0.02))
        spent = time.thread_time() - before
        while emt.stats().rested < 5:
            sum(range(1000))
        stats = emt.end()
        print(stats.intervals, 0 < stats.setup_s < spent)
        emt.start()
        print(emt.end().setup_s < stats.setup_s)
        """
    )
    assert printed.stdout == "0 True\nTrue\n"


def test_it_stands_beside_the_engines_package(program: Program, tmp_path: Path) -> None:
    engine = tmp_path / "engine" / "tierwise"
    engine.mkdir(parents=True)
    # The same as in python/tierwise/__init__.py.
    (engine / "__init__.py").write_text(
        "import pkgutil\n__path__ = pkgutil.extend_path(__path__, __name__)\nENGINE = 1\n",
        encoding="ascii",
    )
    printed = program(
        "import tierwise, tierwise.emt as emt\nprint(tierwise.ENGINE, emt.stats().reason)",
        PYTHONPATH=str(engine.parent),
    )
    assert printed.stdout.strip() == "1 not started"


def test_nodes_must_be_a_list() -> None:
    refused = r"slow_nodes is 1; allowed: a list of node numbers, such as \[1\]"
    with pytest.raises(ValueError, match=refused):
        emt.Settings(slow_nodes=1)  # type: ignore[arg-type]
    with (
        pytest.raises(ValueError, match=refused),
        emt.tiering(slow_nodes=1),  # type: ignore[arg-type]
    ):
        pass


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sample_interval", "x"),
        ("overhead_budget", None),
        ("mem_pressure", None),
        ("fast_nodes", "1"),
        ("sample_interval", True),
        ("mem_pressure", True),
    ],
)
def test_values_of_other_types_are_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{value!r}.*; allowed"):
        emt.Settings(**{name: value})  # type: ignore[arg-type]


def test_arguments_of_nonsense_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match="settings is 5; allowed: a Settings"):
        emt.start(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="callback is 5; allowed: a function"):
        emt.start(callback=5)  # type: ignore[arg-type]


def test_a_misspelt_variable_names_the_nearest() -> None:
    with pytest.raises(
        ValueError,
        match="TIERWISE_EMT_SLOW_NODE is no setting; the nearest is TIERWISE_EMT_SLOW_NODES",
    ):
        emt.Settings.from_environment({"TIERWISE_EMT_SLOW_NODE": "1"})
    emt.Settings.from_environment(
        {"TIERWISE_EMT": "1", "TIERWISE_EMT_REPORT": "a.html", "TIERWISE_EMT_BENCH_SCALE": "1"}
    )


@pytest.mark.parametrize(
    "words", [("nosuch.py",), ("/",), ("-m", "no_such_module"), ("-m", "no.such.module")]
)
def test_a_missing_program_prints_one_line(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tierwise.emt", "run", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert words[-1].split(".")[0] in done.stderr


def test_a_short_run_fills_the_drawing() -> None:
    from tierwise.emt.contents import contents
    from tierwise.emt.heatmap import DRAWN_W, svg
    from tierwise.emt.history import BINS, DRAWN_BINS, History, Row

    history = History()
    history.add(Row(0.0, 10, array("f", [1.0] * BINS)))
    history.add(Row(1.0, 10, array("f", [2.0] * BINS)))
    nothing = contents(array("Q"), array("f"), DRAWN_BINS)
    assert svg(history, nothing).count(f'width="{DRAWN_W // 2}"') == 2


def test_the_licences_are_installed_with_it() -> None:
    from importlib.metadata import files

    names = {file.name for file in files("tierwise-emt") or []}
    assert {"LICENSE", "LICENSE-APACHE", "LICENSE-MIT"} <= names


def test_import_is_counted_from_its_start(program: Program) -> None:
    """The budget has the import's time; modules that came before its clock were not in it."""
    program("""
        import sys
        before = set(sys.modules)
        import tierwise.emt
        new = [name for name in sys.modules if name not in before]
        uncounted = set(new[: new.index("tierwise.emt.imported")])
        assert uncounted <= {"tierwise", "tierwise.emt"}, uncounted
    """)
