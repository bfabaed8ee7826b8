"""Each measure holds by itself: with it a thing is refused, without it another one catches it."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys
import threading
import time

import pytest
from harmful_kernels import HARMFUL, HEADER, HONEST
from surroundings import SECRET, marker, processes_of, request

from accelopt.errors import BackendUnavailableError, ConfigError
from accelopt.process import landlock, linux
from accelopt_simulator.process import bwrap, isolation, seccomp
from accelopt_simulator.process.confine import MEASURES
from accelopt_simulator.process.isolation import Level

needs_seccomp = pytest.mark.skipif(
    not seccomp.available(), reason="the kernel takes no filters, or there is none for the machine"
)
needs_landlock = pytest.mark.skipif(not landlock.version(), reason="the kernel has no Landlock")

NESTED_FORK = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        while True: time.sleep(60)
    while True: time.sleep(60)
raise OSError("forked")
"""
OUTCOME = """
try:
    ACTION
except OSError as error:
    raise ValueError("refused: " + str(error.errno))
raise ValueError("done")
"""


def run(pool, body):
    """What a kernel of these statements says when it ends."""
    lines = body.strip("\n").splitlines()
    text = HEADER + "\ndef harm():\n" + "".join(f"    {line}\n" for line in lines)
    result = pool.trace(request(text + "\ndef kernel(x):\n    harm()\n"))
    assert result.diagnostics, result
    return result.diagnostics[0]["message"]


def outcome(pool, action):
    return run(pool, OUTCOME.replace("ACTION", action)).partition(": ")[2]


def all_but(*kept):
    return [name for name in MEASURES if name not in kept]


def test_without_anything_that_forbids_it_a_fork_succeeds_and_is_cleaned_up(new_pool, level):
    pool = new_pool(level, without=["seccomp", "process_limit"])
    assert pool.trace(request(HONEST)).status == "ok"
    before = processes_of(marker(pool))
    assert run(pool, NESTED_FORK) == "OSError: forked"
    # Not a moment later: before the result was handed over.
    assert processes_of(marker(pool)) == before


@needs_seccomp
def test_the_filter_alone_refuses_a_fork(new_pool):
    pool = new_pool(Level.PROCESS, without=all_but("seccomp", "user"))
    assert outcome(pool, "os.fork()") == "refused: 1"
    assert outcome(pool, "os.kill(os.getppid(), 0)") == "refused: 1"
    assert outcome(pool, "os.open('/', 0)") == "refused: 1"
    assert outcome(pool, "socket.socket()") == "refused: 1"
    if seccomp.machine() == "x86_64":
        # A call through the other table of this processor ends the process at once.
        assert "signal 31" in run(pool, "libc.syscall(0x40000000 | 39)")


@pytest.mark.slow
def test_the_process_limit_alone_refuses_a_fork(new_pool):
    pool = new_pool(Level.PROCESS, without=all_but("process_limit", "user"))
    assert outcome(pool, "os.fork()") == "refused: 11"


@pytest.mark.slow
def test_the_descriptor_limit_alone_refuses_files_and_sockets(new_pool):
    pool = new_pool(Level.PROCESS, without=all_but("descriptor_limit", "user"))
    assert outcome(pool, "os.open('/', 0)") == "refused: 24"
    assert outcome(pool, "socket.socket()") == "refused: 24"


@needs_landlock
def test_landlock_alone_refuses_files_tcp_and_signals(new_pool, world):
    pool = new_pool(Level.PROCESS, without=all_but("landlock", "user"))
    assert outcome(pool, "os.listdir('.')") == "refused: 13"
    connect = f"socket.create_connection(('127.0.0.1', {world.names['PORT']}))"
    if landlock.version() >= 4:
        assert outcome(pool, connect) == "refused: 13"
    if landlock.version() >= 6:
        assert outcome(pool, "os.kill(os.getppid(), 0)") == "refused: 1"
    world.check_untouched()


@pytest.mark.slow
def test_without_all_of_them_those_things_can_be_done(new_pool):
    """The other tests would prove nothing if something else refused it."""
    pool = new_pool(Level.PROCESS, without=all_but())
    assert outcome(pool, "os.listdir('.')") == "done"
    assert outcome(pool, "socket.socket()") == "done"
    assert outcome(pool, "os.kill(os.getppid(), 0)") == "done"


@pytest.mark.slow
def test_a_server_that_was_killed_or_stopped_is_replaced(new_pool, level):
    pool = new_pool(level, without=["seccomp", "landlock", "user"], wall_s=1.0)
    assert pool.trace(request(HONEST)).status == "ok"
    for signal in ("SIGKILL", "SIGSTOP"):
        start = time.monotonic()
        harm = f"os.kill(os.getppid(), signal.{signal})\nwhile True: time.sleep(60)"
        assert run(pool, harm)
        # A killed server takes the candidate with it, so it is tried twice.
        assert time.monotonic() - start < 2 * (1.0 + 2.0)
        assert pool.trace(request(HONEST)).status == "ok"
    number = len(processes_of(marker(pool)))
    assert number == (1 if level is Level.PROCESS else 3)


def test_nothing_runs_where_rights_can_not_be_given_up(new_pool, monkeypatch):
    pool = new_pool(Level.PROCESS)
    hello = {"refused": "can't become the unprivileged user 65534: Invalid argument"}
    monkeypatch.setattr(pool.server, "_receive", lambda control, deadline: hello)
    with pytest.raises(BackendUnavailableError, match="can't become the unprivileged user"):
        pool.trace(request(HONEST))


def test_the_level_is_what_the_environment_asks_for(monkeypatch):
    monkeypatch.setenv(isolation.VARIABLE, "process")
    assert isolation.choose() is Level.PROCESS
    monkeypatch.setenv(isolation.VARIABLE, "strongest")
    with pytest.raises(ConfigError, match="one of auto, process, bwrap"):
        isolation.choose()
    monkeypatch.setattr(bwrap, "problem", lambda: "it is not installed")
    monkeypatch.setenv(isolation.VARIABLE, "auto")
    assert isolation.choose() is Level.PROCESS
    monkeypatch.setenv(isolation.VARIABLE, "bwrap")
    with pytest.raises(BackendUnavailableError, match="it is not installed"):
        isolation.choose()
    monkeypatch.setattr(bwrap, "problem", lambda: "")
    monkeypatch.setenv(isolation.VARIABLE, "")
    assert isolation.choose() is Level.BWRAP


def test_the_names_of_the_table_are_different():
    assert len({harm.name for harm in HARMFUL}) == len(HARMFUL)


@pytest.mark.slow
def test_nothing_outlives_a_run_that_is_killed(level, tmp_path):
    program = (
        "import os, sys\n"
        "from accelopt_simulator.process.server import TracingServer\n"
        f"server = TracingServer(memory_bytes={memory()}, cpu_s=5, level={level.value!r})\n"
        "server.measures()\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        timeout=60,
        check=False,
    )
    assert done.returncode == -9
    until = time.monotonic() + 5
    while processes_of(f'"memory_bytes": {memory()},') and time.monotonic() < until:
        time.sleep(0.02)
    assert not processes_of(f'"memory_bytes": {memory()},')


def memory():
    """A limit that no other server has."""
    return (1 << 30) + os.getpid() * 4 + 1


def decide(code, architecture, number, arguments=(0,) * 6):
    """What a filter answers: runs its instructions as the kernel would."""
    data = struct.pack("<IIQ6Q", number, architecture, 0, *arguments)
    steps = [struct.unpack_from("<HBBI", code, at) for at in range(0, len(code), 8)]
    at = word = 0
    while True:
        operation, yes, no, value = steps[at]
        at += 1
        if operation == 0x20:
            (word,) = struct.unpack_from("<I", data, value)
        elif operation == 0x06:
            return value
        else:
            holds = {0x15: word == value, 0x35: word >= value, 0x45: bool(word & value)}
            at += yes if holds[operation] else no


ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050001, 0x80000000


@pytest.mark.parametrize("name", seccomp.CALLS)
def test_a_filter_allows_the_list_and_nothing_else(name):
    code, architecture = seccomp.program(name), seccomp.AUDIT_ARCHITECTURES[name]
    listed = set(seccomp.CALLS[name].values())
    maps, limits = set(seccomp.MAPPING_CALLS[name].values()), seccomp.LIMIT_CALL[name]
    for number in range(1024):
        answer = decide(code, architecture, number)
        if number in listed | maps | {limits}:
            assert answer == ALLOW, number
        elif number == seccomp.CLONE3:
            assert answer == 0x00050000 | errno.ENOSYS
        else:
            assert answer == REFUSE, number
    for number in maps:
        assert decide(code, architecture, number, (0, 4096, 3, 0, 0, 0)) == ALLOW
        assert decide(code, architecture, number, (0, 4096, 5, 0, 0, 0)) == REFUSE
    assert decide(code, architecture, limits, (os.getpid(), 7, 0, 0, 0, 0)) == REFUSE
    assert decide(code, 0x40000003, 1) == KILL
    if name == "x86_64":
        assert decide(code, architecture, 0x40000001) == KILL


@pytest.mark.skipif(not seccomp.available(), reason="the numbers are this machine's")
def test_the_numbers_of_this_machine_are_right():
    """Calls without side effects answer by number as they do by name."""
    numbers = seccomp.CALLS[seccomp.machine()]
    for name in ("getpid", "getppid", "getuid", "geteuid", "getgid", "getegid"):
        assert linux.syscall(numbers[name]) == getattr(os, name)()
    assert linux.syscall(numbers["gettid"]) == threading.get_native_id()


@needs_landlock
def test_a_judge_keeps_its_files_and_loses_the_network(world):
    program = (
        "import os, socket\n"
        "from accelopt.process.limits import confine_judge\n"
        "confine_judge(memory_bytes=8 << 30)\n"
        f"print(open({str(world.secret)!r}).read())\n"
        "for attempt in (\n"
        f"    lambda: socket.create_connection(('127.0.0.1', {world.names['PORT']})),\n"
        "    lambda: os.kill(os.getppid(), 0),\n"
        "):\n"
        "    try:\n"
        "        attempt()\n"
        "        print('done')\n"
        "    except PermissionError:\n"
        "        print('refused')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    secret, network, signals = done.stdout.split()
    assert secret == SECRET
    assert network == ("refused" if landlock.version() >= 4 else "done")
    assert signals == ("refused" if landlock.version() >= 6 else "done")
    world.check_untouched()
