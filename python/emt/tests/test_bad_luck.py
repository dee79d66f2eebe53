"""Bad input and failures cause no crash, no deadlock, no changed result, and no page that stays
protected."""

import platform
import re
from pathlib import Path

import pytest
from conftest import Program
from tierwise.emt.support import free_threaded

TESTS = str(Path(__file__).parent)
BEGIN = f"""
import sys; sys.path.insert(0, {TESTS!r})
from protection import protected_mappings
import tierwise.emt as emt
QUICK = dict(sample_interval=0.02, overhead_budget=1.0)
"""


def test_a_missing_node_is_refused(program: Program) -> None:
    printed = program(
        BEGIN + "try:\n    emt.start(emt.Settings(slow_nodes=(9,)))\n"
        "except emt.Unavailable as error:\n    print(error)"
    )
    assert "node 9, which has no memory; nodes with memory:" in printed.stdout
    assert "slow_nodes=[] only tracks" in printed.stdout


# Seccomp filters that answer a system call with an error, as a container's do: BPF of load number,
# compare, refuse or allow.
SECCOMP = (
    BEGIN
    + """
import ctypes, struct, sys
def forbid(number, errno, ioctl=0):
    code = [(0x20, 0, 0, 0), (0x15, 0, 3 if ioctl else 1, number)]
    if ioctl:
        code += [(0x20, 0, 0, 24), (0x15, 0, 1, ioctl)]
    code += [(0x06, 0, 0, 0x00050000 | errno), (0x06, 0, 0, 0x7FFF0000)]
    program = b"".join(struct.pack("HBBI", *line) for line in code)
    held = ctypes.create_string_buffer(program)
    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    code_at = ctypes.addressof(held)
    assert libc.prctl(22, 2, ctypes.byref(Program(len(code), code_at))) == 0, ctypes.get_errno()
"""
)


@pytest.mark.parametrize(
    ("forbidden", "signal", "reason"),
    [
        # userfaultfd, EPERM: seccomp in a container, or a sysctl.
        ("forbid(323, 1)", "uffd-wp", "userfaultfd is forbidden here"),
        # ENOSYS: a kernel without it.
        ("forbid(323, 38)", "uffd-wp", "no userfaultfd"),
        # PAGEMAP_SCAN, ENOTTY: a kernel before 6.7.
        ("forbid(16, 25, 0xC0606610)", "uffd-wp", "PAGEMAP_SCAN: .*6.7"),
        # UFFDIO_API, EINVAL: a kernel whose userfaultfd knows no asynchronous protection.
        ("forbid(16, 22, 0xC018AA3F)", "uffd-wp", "UFFDIO_API: .*6.7"),
    ],
)
def test_kernel_refusals_are_reported(
    program: Program, forbidden: str, signal: str, reason: str
) -> None:
    if platform.machine() != "x86_64":
        forbidden = (
            "raise SystemExit('Unavailable: the numbers of system calls here are those of x86-64')"
        )
    text = (
        f"{SECCOMP}\n{forbidden}\n"
        f"try:\n    emt.start(emt.Settings(signal={signal!r}))\n"
        "except emt.Unavailable as error:\n    print(error)\n"
        "print(sum(range(10)))"
    )
    printed = program(text)
    assert re.search(reason, printed.stdout), printed.stdout
    assert printed.stdout.rstrip().endswith("45")


def test_another_allocators_memory_is_tracked(program: Program) -> None:
    printed = program(
        BEGIN
        + """
with emt.tiering(**QUICK) as t:
    while t.stats().pages_tracked < 10:
        [bytes(100) for _ in range(1000)]
print("tracked", protected_mappings())
""",
        # A free-threaded interpreter has only its own allocator, and does not start with another.
        PYTHONMALLOC="mimalloc" if free_threaded() else "malloc",
    )
    assert printed.stdout == "tracked 0\n"


def test_fork_tracks_only_the_parent(program: Program) -> None:
    printed = program(
        BEGIN + """
import os, threading, time
with emt.tiering(**QUICK) as t:
    data = [bytearray(100) for _ in range(50000)]
    for step in range(5):
        time.sleep(0.05)
        child = os.fork()
        if child == 0:
            ok = not emt.stats().active and protected_mappings() == 0
            ok = ok and threading.active_count() == 1
            for item in data: item[0] = 1
            with emt.tiering(**QUICK) as mine:
                ok = ok and mine.stats().active
            os._exit(0 if ok and protected_mappings() == 0 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert t.stats().active
    before = t.stats().intervals
    while t.stats().intervals < before + 3:
        sum(range(1000))
print("done", protected_mappings())
""",
        "-W", "error",
    )  # fmt: skip
    assert printed.stdout == "done 0\n"


def test_tracking_resumes_after_all_fork_hooks(program: Program) -> None:
    # Since 3.12 os.fork warns of threads after all hooks have run. A hook in Python runs pending
    # calls.
    printed = program(
        BEGIN + """
import os, time
with emt.tiering(**QUICK) as t:
    os.register_at_fork(after_in_parent=lambda: sum(range(1000)))
    for step in range(5):
        time.sleep(0.05)
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        before = t.stats().intervals
        while t.stats().intervals == before:
            sum(range(1000))
print("done", protected_mappings())
""",
        "-W", "error",
    )  # fmt: skip
    assert printed.stdout == "done 0\n"


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_works_while_tracking(program: Program, method: str) -> None:
    printed = program(
        BEGIN
        + f"""
import multiprocessing
def square(n):
    return n * n
if __name__ == "__main__":
    with emt.tiering(**QUICK):
        with multiprocessing.get_context({method!r}).Pool(2) as pool:
            print(sum(pool.map(square, range(1000))))
    print(protected_mappings())
"""
    )
    assert printed.stdout == "332833500\n0\n"


def test_exiting_threads_do_no_harm(program: Program) -> None:
    printed = program(
        BEGIN
        + """
import threading
found = []
def work(n):
    found.append(sum(len(bytearray(n)) for _ in range(300)))
with emt.tiering(**QUICK):
    for _ in range(30):
        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
print(sum(found), protected_mappings())
"""
    )
    assert printed.stdout == f"{30 * 300 * 28} 0\n"


def test_the_interpreter_may_end_while_tracking(program: Program) -> None:
    for last in (
        "",
        "raise SystemExit(0)",
        "import os; os._exit(0)",
        "import threading; threading.Thread(target=lambda: sum(range(10**6))).start()",
    ):
        printed = program(
            BEGIN
            + f"emt.start(emt.Settings(**QUICK))\ndata = [object() for _ in range(10**5)]\n{last}"
        )
        assert printed.stderr == ""


def test_a_sub_interpreter_is_refused(program: Program) -> None:
    printed = program(
        BEGIN
        + """
try:
    import _interpreters
except ImportError:
    import _xxsubinterpreters as _interpreters
text = '''
import tierwise.emt as emt
try:
    emt.start()
except emt.Unavailable as error:
    assert "interpreter" in str(error), str(error)
else:
    raise AssertionError("it was not refused")
'''
with emt.tiering(**QUICK):
    made = _interpreters.create()
    failed = _interpreters.run_string(made, text)
    assert failed is None, failed
    _interpreters.destroy(made)
print(protected_mappings())
"""
    )
    assert printed.stdout == "0\n"


def test_ten_million_small_objects_freed_at_once(program: Program) -> None:
    printed = program(
        BEGIN
        + """
with emt.tiering(**QUICK) as t:
    many = [float(n) for n in range(10**7)]
    before = t.stats().intervals
    while t.stats().intervals < before + 2:
        sum(range(1000))
    total = sum(many)
    many = None
    again = [float(n) for n in range(10**6)]
    del again
print(int(total), protected_mappings())
"""
    )
    assert printed.stdout == f"{sum(range(10**7))} 0\n"


def test_arenas_are_freed_while_being_read(program: Program) -> None:
    printed = program(
        BEGIN
        + """
rounds = 0
with emt.tiering(sample_interval=0.01, overhead_budget=1.0) as t:
    while t.stats().active and (rounds < 60 or t.stats().intervals < 60):
        made = [[n] for n in range(60000)]
        assert sum(item[0] for item in made) == 60000 * 59999 // 2
        del made
        rounds += 1
    assert t.stats().active, t.stats()
print(protected_mappings())
"""
    )
    assert printed.stdout == "0\n"


def test_a_huge_dict_is_tracked(program: Program) -> None:
    printed = program(
        BEGIN
        + """
with emt.tiering(**QUICK) as t:
    big = {n: n for n in range(3_000_000)}
    before = t.stats().intervals
    while t.stats().intervals < before + 3:
        total = sum(big.values())
    big.clear()
print(total, protected_mappings())
"""
    )
    assert printed.stdout == f"{sum(range(3_000_000))} 0\n"


def test_changing_mappings_do_no_harm(program: Program) -> None:
    printed = program(
        BEGIN
        + """
import mmap
with emt.tiering(**QUICK) as t:
    while t.stats().active and t.stats().intervals < 40:
        memory = mmap.mmap(-1, 1 << 22, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory[:] = b"x" * len(memory)
        buffer = bytearray(1 << 20)
        buffer.extend(b"y" * (1 << 22))
        memory.close()
        assert buffer[-1] == 121
    assert t.stats().active, t.stats()
print(protected_mappings())
"""
    )
    assert printed.stdout == "0\n"


def test_system_calls_into_protected_memory_succeed(program: Program) -> None:
    printed = program(
        BEGIN
        + """
import os
read, write = os.pipe()
buffers = [bytearray(4096) for _ in range(2000)]
with emt.tiering(**QUICK) as t:
    while t.stats().active and (t.stats().intervals < 40 or t.stats().pages_tracked <= 1000):
        for number, buffer in enumerate(buffers):
            os.write(write, bytes([number % 251]) * 4096)
            assert os.readv(read, [buffer]) == 4096
            assert buffer[4095] == number % 251
    assert t.stats().active, t.stats()
print(protected_mappings())
"""
    )
    assert printed.stdout == "0\n"


def test_results_do_not_change(program: Program) -> None:
    text = """
import hashlib, json, random
draw = random.Random(7)
table = {}
for step in range(150000):
    key = draw.randrange(20000)
    table.setdefault(str(key), []).append(step)
    if step % 7 == 0:
        table.pop(str(draw.randrange(20000)), None)
print(hashlib.sha256(json.dumps(table).encode()).hexdigest())
"""
    plain = program(text).stdout
    tracked = program(
        text,
        TIERWISE_EMT="1",
        TIERWISE_EMT_SAMPLE_INTERVAL="0.01",
        TIERWISE_EMT_OVERHEAD_BUDGET="1.0",
    )
    assert tracked.stdout == plain
