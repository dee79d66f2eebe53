"""The cold and the hot heap. The allocators stay hooked, so each test has an interpreter of its
own."""

import pytest
from conftest import Program
from tierwise.emt.support import free_threaded

pytestmark = pytest.mark.skipif(
    free_threaded(), reason="test_profile has the refusal of builds without the lock"
)


def test_new_objects_come_from_the_heap_of_the_block(program: Program) -> None:
    program("""
        import tierwise.emt as emt

        class Point:
            __slots__ = ("x",)

        def made(n):
            # More than any free list keeps.
            return [Point() for _ in range(n)]

        before = made(5000)
        with emt.cold():
            cold = made(5000)
            with emt.hot():
                hot = made(5000)
            cold_again = made(5000)
        after = made(5000)
        for points, heap in (
            (before, None), (cold, "cold"), (hot, "hot"), (cold_again, "cold"), (after, None)
        ):
            assert {emt.heap_of(point) for point in points} == {heap}, heap
    """)


def test_blocks_return_to_their_heap_whatever_the_block(program: Program) -> None:
    program("""
        import tierwise.emt as emt

        def data(n):
            return [bytes(100 + n % 3000) for n in range(20_000)]

        emt.segregate()
        default = data(0)
        with emt.cold():
            cold = data(0)
        with emt.hot():
            used = emt.heaps()["cold"].used
            assert used > 20_000 * 1000
            del cold, default
        assert emt.heaps()["cold"].used < used / 100, emt.heaps()
        # The memory is used again, not new.
        end = emt.heaps()["cold"].end
        with emt.cold():
            cold = data(0)
        assert emt.heaps()["cold"].end < end + (1 << 20)
    """)


def test_freed_memory_goes_back_to_the_system(program: Program) -> None:
    program("""
        import tierwise.emt as emt

        def resident_mib():
            return int(open("/proc/self/statm").read().split()[1]) / 256

        emt.segregate()
        before = resident_mib()
        with emt.cold():
            # Objects, tables, and one large block.
            data = [[n, float(n)] for n in range(300_000)], bytearray(50 << 20)
        # By pages: a temporary object would be in other memory, which a checked build keeps.
        for n in range(0, len(data[1]), 4096):
            data[1][n] = 1
        assert resident_mib() > before + 80
        del data
        assert resident_mib() < before + 8, (before, resident_mib())
    """)


def test_a_block_keeps_its_content_when_its_size_changes(program: Program) -> None:
    program("""
        import random
        import tierwise.emt as emt

        draw = random.Random(1)
        emt.segregate()
        kept = []
        for round in range(3000):
            block = (emt.cold, emt.hot)[round % 2]() if round % 3 else None
            if block is None:
                kept.append((bytearray(), []))
            else:
                with block:
                    kept.append((bytearray(), []))
                    kept[-1][0].extend(b"0")
                    kept[-1][1].append(0)
            # Sizes of all classes, and of large blocks.
            for _ in range(10):
                array, items = draw.choice(kept)
                size = int(2 ** draw.uniform(0, 18))
                with draw.choice((emt.cold, emt.hot))():
                    if draw.random() < 0.5:
                        start = len(array)
                        array.extend(n & 0xff for n in range(start, start + size // 8))
                        items.extend(range(len(items), len(items) + size // 64))
                    else:
                        del array[size:], items[size // 8:]
            if len(kept) > 60:
                del kept[draw.randrange(len(kept))]
        for array, items in kept:
            if array[:1] == b"0":
                array[0] = 0
            assert all(byte == n & 0xff for n, byte in enumerate(array))
            assert items == list(range(len(items)))
    """)


def test_threads_make_and_end_each_others_objects(program: Program) -> None:
    done = program("""
        import hashlib
        import queue
        import random
        import sys
        import threading
        import tierwise.emt as emt

        sys.setswitchinterval(1e-5)
        emt.segregate()
        passed = queue.SimpleQueue()
        digests = {}
        # The threads share the blocks too.
        blocks = emt.cold(), emt.hot()

        def work(number):
            draw = random.Random(number)
            digest = hashlib.sha256()
            mine = {}
            for step in range(8000):
                with blocks[(step + number) % 2]:
                    made = {"n": step, "text": "x" * draw.randrange(2000),
                            "list": [draw.random() for _ in range(draw.randrange(40))]}
                mine[draw.randrange(500)] = made
                if step % 3 == 0:
                    passed.put(mine.pop(next(iter(mine))))
                if step % 3 == 1:
                    try:
                        other = passed.get_nowait()
                        other["list"].append(len(other["text"]))
                    except queue.Empty:
                        pass
            for key in sorted(mine):
                digest.update(repr((key, mine[key]["n"], mine[key]["text"][:9])).encode())
            digests[number] = digest.hexdigest()

        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        # A block holds in its own thread only.
        class Mine:
            pass
        assert all(emt.heap_of(Mine()) is None for _ in range(1000))
        for thread in threads:
            thread.join()
        assert all(emt.heap_of(Mine()) is None for _ in range(1000))
        assert len(digests) == 6
        print(*(digests[n] for n in range(6)))
    """)
    assert len(done.stdout.split()) == 6


def test_a_forked_child_has_heaps_of_its_own(program: Program) -> None:
    program("""
        import os
        import tierwise.emt as emt

        emt.segregate()
        with emt.cold():
            shared = [str(n) * 5 for n in range(50_000)]
            pid = os.fork()
            if pid == 0:
                # The block goes on in the child.
                more = [str(n) * 7 for n in range(50_000)]
                ok = shared[777] == "777" * 5 and emt.heap_of(more[-1]) == "cold"
                del shared[::2]
                os._exit(0 if ok and more[9] == "9" * 7 else 1)
        more = [str(n) * 9 for n in range(50_000)]
        assert os.waitpid(pid, 0)[1] == 0
        assert shared == [str(n) * 5 for n in range(50_000)]
    """)


def test_an_interpreter_of_its_own_lock_gets_no_block(program: Program) -> None:
    program("""
        import sys
        import threading
        import tierwise.emt as emt

        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters

        emt.segregate()
        def run():
            other = interpreters.create()
            with emt.cold():
                used = emt.heaps()["cold"].used
                interpreters.run_string(other, "kept = [str(n) * 9 for n in range(100_000)]")
                assert emt.heaps()["cold"].used < used + 100_000
            interpreters.destroy(other)
        threads = [threading.Thread(target=run) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    """)


def test_the_interpreter_ends_with_objects_in_the_heaps(program: Program) -> None:
    done = program("""
        import threading
        import tierwise.emt as emt

        class Ends:
            def __init__(self, n):
                self.n, self.itself = n, self
            def __del__(self):
                if self.n % 1000 == 0:
                    print("ended", flush=True)

        def generator():
            with emt.cold():
                while True:
                    yield Ends(1)

        with emt.cold():
            kept = [Ends(n) for n in range(5000)]
            threading.Thread(target=lambda: kept.append(Ends(2))).start()
        open_block = generator()
        next(open_block)
    """)
    assert done.stdout.split() == ["ended"] * 5
    assert done.stderr == ""


def test_tracemalloc_begins_and_ends_above_the_heaps(program: Program) -> None:
    program("""
        import tracemalloc
        import tierwise.emt as emt

        emt.segregate()
        tracemalloc.start()
        with emt.cold():
            traced = [str(n) * 9 for n in range(10_000)]
        assert emt.heap_of(traced[-1]) == "cold"
        assert tracemalloc.get_object_traceback(traced[-1]) is not None
        tracemalloc.stop()
        with emt.cold():
            more = [str(n) * 9 for n in range(10_000)]
        assert emt.heap_of(more[-1]) == "cold"
        del traced, more
        assert emt.heaps()["cold"].used < 1 << 20
    """)


def test_tracemalloc_below_the_heaps_is_refused(program: Program) -> None:
    done = program("import tierwise.emt as emt; emt.segregate()", "-X", "tracemalloc", check=False)
    assert done.returncode == 1
    assert "Unavailable: tracemalloc is on" in done.stderr


@pytest.mark.parametrize("allocator", ["malloc", "debug", "pymalloc_debug"])
def test_other_allocators_of_the_interpreter_do(program: Program, allocator: str) -> None:
    program(
        """
        import tierwise.emt as emt
        with emt.cold():
            items = [str(n) * 9 for n in range(10_000)]
        assert emt.heap_of(items[-1]) == "cold"
        items.extend(items)
        """,
        PYTHONMALLOC=allocator,
    )


def test_the_interpreters_count_of_blocks_stays_right(program: Program) -> None:
    program("""
        import sys
        import tierwise.emt as emt

        emt.segregate()
        before = sys.getallocatedblocks()
        with emt.cold():
            items = [bytes(100) for _ in range(10_000)]
        made = sys.getallocatedblocks() - before
        del items
        left = sys.getallocatedblocks() - before
        assert 10_000 <= made < 10_500, made
        assert abs(left) < 500, left
    """)


def test_few_addresses_make_small_heaps(program: Program) -> None:
    program("""
        import resource
        import tierwise.emt as emt

        now = int(open("/proc/self/statm").read().split()[0]) * 4096
        resource.setrlimit(resource.RLIMIT_AS, (now + (2 << 30), now + (2 << 30)))
        emt.segregate()
        # More than a heap has: the rest is the interpreter's own.
        with emt.cold():
            items = [bytes(100_000) for _ in range(9000)]
        heaps = {emt.heap_of(item) for item in items}
        assert heaps == {"cold", None}, heaps
        items.clear()
        assert emt.heaps()["cold"].used < 1 << 20
    """)


def test_heaps_cannot_be_given_twice(program: Program) -> None:
    program("""
        import tierwise.emt as emt
        emt.segregate()
        try:
            emt.segregate()
        except emt.Unavailable as error:
            assert "there already" in str(error)
        else:
            raise AssertionError
    """)


def test_the_output_of_a_large_program_is_the_same(program: Program) -> None:
    text = """
        import ast, hashlib, json, pickle, sys, sysconfig
        from pathlib import Path

        if sys.argv[0] and "HEAPS" in __import__("os").environ:
            import tierwise.emt as emt
            emt.segregate()
            blocks = [emt.cold, emt.hot]
        else:
            from contextlib import nullcontext
            blocks = [nullcontext, nullcontext]
        digest = hashlib.sha256()
        kept = []
        files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[:70]
        for n, file in enumerate(files):
            with blocks[n % 2]():
                tree = ast.parse(file.read_bytes())
                text = ast.dump(tree)
                kept.append((tree, json.loads(json.dumps({"text": text.split("(")}))))
            with blocks[(n + 1) % 2]():
                digest.update(pickle.dumps(kept[-1][1]))
                digest.update(ast.unparse(tree).encode())
            if len(kept) > 5:
                del kept[n % 5]
        print(digest.hexdigest())
    """
    without = program(text, PYTHONHASHSEED="0").stdout
    assert program(text, PYTHONHASHSEED="0", HEAPS="1").stdout == without


def test_rebuilt_copies_what_it_knows(program: Program) -> None:
    program("""
        import copy
        import math
        import tierwise.emt as emt

        class Instance:
            pass

        instance = Instance()
        words = ["a longer word %d" % n for n in range(3000)]
        loop = [1]
        loop.append((loop, words[0]))
        thing = {
            "words": words, "again": words, "floats": [n / 7 for n in range(3000)],
            "numbers": [n * 10**9 for n in range(3000)] + [10**40, -(10**40), -5],
            "bytes": bytes(5000), "set": {n + 0.5 for n in range(99)},
            "frozen": frozenset({"one word", "other word"}), "loop": loop, "instance": instance,
            "wide": ["\\u4e00" * 9, "\\U0001f600" * 9, "\\ud800 alone"], "complex": 1.5j,
            "nan": [math.nan, -0.0], "nested": (1, (2.5, ["x" * 50])),
        }
        moved = emt.rebuilt(thing, "cold")
        assert moved is not thing and moved["words"] is moved["again"]
        assert moved["words"] == words
        assert {emt.heap_of(word) for word in moved["words"]} == {"cold"}
        assert [emt.heap_of(n) for n in moved["floats"]].count("cold") > 2800
        assert moved["instance"] is instance
        assert moved["loop"][1][0] is moved["loop"] and moved["loop"] is not loop
        assert math.isnan(moved["nan"][0]) and math.copysign(1, moved["nan"][1]) == -1
        for key in ("floats", "numbers", "bytes", "set", "frozen", "wide", "complex", "nested"):
            assert moved[key] == thing[key], key
            assert type(moved[key]) is type(thing[key])
    """)


def test_rebuilt_refuses_another_tier(program: Program) -> None:
    program("""
        import tierwise.emt as emt
        try:
            emt.rebuilt([1], "warm")
        except ValueError as error:
            assert "cold, hot" in str(error)
        else:
            raise AssertionError
    """)


def test_hooks_go_where_nothing_asks_for_a_heap(program: Program) -> None:
    program("""
        import ctypes
        import tracemalloc
        import tierwise.emt as emt

        class Allocator(ctypes.Structure):
            _fields_ = [(name, ctypes.c_void_p)
                        for name in ("context", "malloc", "calloc", "realloc", "free")]

        class Point:
            __slots__ = ("x",)

        def functions():
            found = Allocator()
            ctypes.pythonapi.PyMem_GetAllocator(2, ctypes.byref(found))
            return found.malloc, found.calloc, found.realloc, found.free

        def made(n):
            return [Point() for _ in range(n)]

        before = functions()
        emt.segregate()
        assert functions() == before
        for _ in range(3):
            with emt.cold():
                inside, cold = functions(), made(5000)
            assert inside != before and {emt.heap_of(point) for point in cold} == {"cold"}
            # They stay for a while, in which blocks come and go.
            with emt.cold():
                assert functions() == inside
            kept = made(30_000)
            assert functions() == before
            del cold, kept
        assert emt.heaps()["cold"].used < 1 << 20

        # A tool that begins while they are away, and ends while they are above it.
        tracemalloc.start()
        with emt.cold():
            traced = made(5000)
            assert tracemalloc.get_object_traceback(traced[-1]) is not None
            tracemalloc.stop()
            assert functions() == before
        with emt.hot():
            hot = made(5000)
        assert {emt.heap_of(point) for point in traced} == {"cold"}
        assert {emt.heap_of(point) for point in hot} == {"hot"}
        del traced, hot
        made(30_000)
        assert functions() == before

        # One that begins above them, and ends when they have been away or not.
        with emt.cold():
            tracemalloc.start()
        made(30_000)
        with emt.cold():
            traced = made(5000)
        assert {emt.heap_of(point) for point in traced} == {"cold"}
        tracemalloc.stop()
        del traced
        made(30_000)
        assert functions() == before
        assert emt.heaps()["cold"].used < 1 << 20
    """)


def test_blocks_hook_again_after_a_tool(program: Program) -> None:
    program("""
        import tracemalloc
        import tierwise.emt as emt

        class Point:
            __slots__ = ("x",)

        emt.segregate()
        cold = emt.cold()
        for _ in range(3):
            with cold:
                first = [Point() for _ in range(1000)]
            # The hooks are there, and the tool's end takes them away just before the next block.
            with cold:
                tracemalloc.start()
            between = [Point() for _ in range(1000)]
            tracemalloc.stop()
            with cold:
                made = [Point() for _ in range(1000)]
            assert {emt.heap_of(point) for point in first + made} == {"cold"}
            assert {emt.heap_of(point) for point in between} == {None}
    """)
