"""Kernels that harm: what they run, and how they must end.

`SECRET`, `FOLDER`, `PORT` and `TESTER` stand for a file with a secret, a folder of another run, a
port somebody listens on, and the process that runs the tests.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

LOAD, TIMEOUT, MEMORY, OK = "load_error", "timeout", "out_of_memory", "ok"
ENDED = frozenset({LOAD, "constraint_violation"})

HEADER = """
import _thread, atexit, ctypes, gc, os, signal, socket, struct, sys, threading, time
import numpy as np
import neuronxcc.nki.language as nl

libc = ctypes.CDLL(None, use_errno=True)

def attempt(*calls):
    "Tries everything, whatever fails."
    found = []
    for call in calls:
        try:
            found.append(call())
        except BaseException as error:
            found.append(type(error).__name__)
    return found

def check(value):
    if value < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return value
"""

HONEST = """
import neuronxcc.nki.language as nl

def kernel(x):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for r in nl.affine_range(x.shape[1]):
        nl.store(out[:, r], nl.silu(nl.load(x[:, r])))
    return out
"""


@dataclass(frozen=True, kw_only=True)
class Harm:
    """One harmful kernel.

    Attributes:
        name: what it does.
        body: statements of the kernel.
        ends: statuses it may end with.
        slow: takes long, or much memory.
    """

    name: str
    body: str
    ends: frozenset[str] = ENDED
    slow: bool = False

    def source(self, **names: object) -> str:
        """The kernel file."""
        body = textwrap.dedent(self.body).strip("\n")
        for name, value in names.items():
            body = body.replace(name, str(value))
        # Not in the kernel's own body, where a loop over a range is traced once.
        return (
            f"{HEADER}\ndef harm(x):\n{textwrap.indent(body, '    ')}\n"
            "\ndef kernel(x):\n    harm(x)\n    return 'not a tensor'\n"
        )

    @property
    def waits(self) -> bool:
        """Whether it may take the whole time limit."""
        return TIMEOUT in self.ends


def harm(name: str, body: str, *ends: str, slow: bool = False) -> Harm:
    """A row of the table."""
    return Harm(name=name, body=body, ends=frozenset(ends) or ENDED, slow=slow)


HARMFUL = [
    harm("fork bomb", "while True: os.fork()"),
    harm("fork bomb that does not take no", "while True: attempt(os.fork)", TIMEOUT),
    harm("fork by raw calls", "attempt(libc.fork, libc.vfork)\ncheck(libc.syscall(57))"),
    harm("clone3", "check(libc.syscall(435, bytes(88), 88))"),
    harm("program", "os.execv('/bin/sh', ['sh', '-c', 'sleep 60'])"),
    harm("spawned program", "os.posix_spawn('/bin/sleep', ['sleep', '60'], {})"),
    harm("memory bomb", "kept = []\nwhile True: kept.append(np.ones(1 << 22))", MEMORY, TIMEOUT),
    harm("memory bomb in one piece", "bytearray(1 << 40)", MEMORY),
    harm("memory bomb by mapping", """
        import mmap
        kept = []
        while True: kept.append(mmap.mmap(-1, 1 << 26))
        """, LOAD, MEMORY),
    harm("disk filler", """
        folders = ['.', '/tmp', '/var/tmp', '/dev/shm', 'FOLDER']
        for folder in folders:
            attempt(lambda: open(folder + '/filler', 'wb').write(bytes(1 << 24)))
        raise OSError
        """),
    harm("memory file", "check(libc.syscall(319, b'x', 0))"),
    harm("infinite loop", "while True: pass", TIMEOUT, slow=True),
    harm("infinite loop in C code", "sum(iter(int, 1))", TIMEOUT),
    harm("huge power", "10 ** 10 ** 8", TIMEOUT, slow=True),
    harm("huge product", "x = np.ones((3000, 3000), dtype=np.int64)\nx @ x", TIMEOUT),
    harm("thread left running", """
        def spin():
            while True: pass
        _thread.start_new_thread(spin, ())
        """),
    harm("thread object left running", "threading.Thread(target=time.sleep, args=(60,)).start()"),
    harm("stops itself", "os.kill(os.getpid(), signal.SIGSTOP)"),
    harm("stops itself by raising", "signal.raise_signal(signal.SIGSTOP)\nraise OSError"),
    harm("ignores every signal", """
        for number in range(1, 65):
            attempt(lambda: signal.signal(number, signal.SIG_IGN))
        while True: time.sleep(60)
        """, TIMEOUT),
    harm("alarms", "attempt(lambda: signal.alarm(1))\nsignal.setitimer(signal.ITIMER_REAL, 0.1)"),
    harm("zombies", """
        for _ in range(100):
            if os.fork() == 0: os._exit(0)
        """),
    harm("kills the server", "os.kill(os.getppid(), signal.SIGKILL)"),
    harm("terminates the server", "os.kill(os.getppid(), signal.SIGTERM)"),
    harm("stops the server", "os.kill(os.getppid(), signal.SIGSTOP)"),
    harm("signals its group", "os.killpg(0, signal.SIGTERM)"),
    harm("signals the server's group", "os.killpg(os.getppid(), signal.SIGKILL)"),
    harm("signals the run", "os.kill(TESTER, 0)"),
    harm("signals by other calls", """
        attempt(lambda: check(libc.syscall(234, os.getppid(), os.getppid(), 9)))
        attempt(lambda: check(libc.syscall(129, os.getppid(), 9, bytes(128))))
        check(libc.syscall(434, os.getppid(), 0))
        """),
    harm("reads a secret", "raise ValueError(open('SECRET').read())"),
    harm("reads a secret otherwise", """
        raise ValueError(str(attempt(
            lambda: np.fromfile('SECRET', np.uint8).tobytes(),
            lambda: np.memmap('SECRET', np.uint8, 'r').tobytes(),
            lambda: os.read(os.open('SECRET', os.O_RDONLY), 100),
            lambda: os.readlink('SECRET'),
            lambda: os.stat('SECRET').st_size,
        )))
        """),
    harm("reads the environment", """
        raise ValueError(str(dict(os.environ)) + str(attempt(
            lambda: open('/proc/self/environ').read(),
            lambda: open('/proc/TESTER/environ').read(),
            lambda: open(f'/proc/{os.getppid()}/environ').read(),
        )))
        """),
    harm("reads another run's folder", "raise ValueError(str(os.listdir('FOLDER')))"),
    harm("walks the disk", """
        raise ValueError(str([names for _, *names in os.walk('/')]) + str(os.listdir('/')))
        """),
    harm("connects out", "socket.create_connection(('192.0.2.1', 80), timeout=1)"),
    harm("connects to this machine", "socket.create_connection(('127.0.0.1', PORT), timeout=1)"),
    harm("listens", "s = socket.socket()\ns.bind(('127.0.0.1', 0))\ns.listen()"),
    harm("sends a datagram", """
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', PORT))
        """),
    harm("local socket", "socket.socket(socket.AF_UNIX).connect('\\0PORT')"),
    harm("netlink", "socket.socket(16, socket.SOCK_RAW, 0)"),
    harm("writes outside its folder", "open('FOLDER/written', 'w').write('x')"),
    harm("writes into a file of another run", "open('SECRET', 'w').write('x')"),
    harm("removes a file", "os.unlink('SECRET')"),
    harm("changes rights", "os.chmod('SECRET', 0o777)"),
    harm("links and renames", """
        attempt(lambda: os.symlink('/', 'link'), lambda: os.link('SECRET', 'FOLDER/link'))
        os.rename('SECRET', 'FOLDER/moved')
        """),
    harm("makes a folder", "os.mkdir('FOLDER/made')"),
    harm("giant print", "print('x' * (1 << 26))"),
    harm("endless print", "while True: print('x' * (1 << 20))", TIMEOUT, slow=True),
    harm("deep recursion", """
        sys.setrecursionlimit(10 ** 9)
        def down(f=None): return down(lambda: f)
        down()
        """, LOAD, MEMORY, TIMEOUT),
    harm("deep recursion in C code", """
        sys.setrecursionlimit(10 ** 9)
        nested = []
        for _ in range(10 ** 6): nested = [nested]
        repr(nested)
        """, LOAD, MEMORY, TIMEOUT, slow=True),
    harm("garbage into every descriptor", """
        for fd in range(3, 256):
            attempt(lambda: os.write(fd, b'\\xff' * (1 << 20)))
        """, LOAD, "constraint_violation"),
    harm("a message that claims to be huge", """
        for fd in range(3, 256):
            attempt(lambda: os.write(fd, struct.pack('<QQ', 100, 1 << 62)))
        time.sleep(60)
        """),
    harm("a message with a huge head", """
        for fd in range(3, 256):
            attempt(lambda: os.write(fd, struct.pack('<QQ', 1 << 28, 0)))
        time.sleep(60)
        """),
    harm("a message without its end", """
        for fd in range(3, 256):
            attempt(lambda: os.write(fd, struct.pack('<QQ', 100, 0)))
        time.sleep(60)
        """, TIMEOUT),
    harm("a message of the wrong form", """
        head = b'{"status": ["ok"], "diagnostics": {}}'
        for fd in range(3, 256):
            attempt(lambda: os.write(fd, struct.pack('<QQ', len(head), 0) + head))
        time.sleep(60)
        """),
    harm("a message with nested diagnostics", """
        head = b'{"status": "load_error", "diagnostics": [' + b'{"message": ' * 400
        head += b'1' + b'}' * 400 + b']}'
        for fd in range(3, 256):
            attempt(lambda: os.write(fd, struct.pack('<QQ', len(head), 0) + head))
        time.sleep(60)
        """),
    harm("half a gigabyte of garbage", """
        part = memoryview(bytes(1 << 20))
        for fd in range(3, 256):
            attempt(lambda: os.write(fd, struct.pack('<QQ', 2, (330 << 20) - 2) + b'[]'))
            attempt(lambda: [os.write(fd, part) for _ in range(513)])
        """, LOAD, TIMEOUT, slow=True),
    harm("closes its pipe and stays", "os.closerange(3, 256)\nwhile True: pass"),
    harm("child in a new session", """
        if os.fork() == 0:
            os.setsid()
            if os.fork(): os._exit(0)
            time.sleep(60)
        """),
    harm("attaches to the server", "check(libc.ptrace(16, os.getppid(), 0, 0))"),
    harm("reads the server's memory", """
        check(libc.syscall(310, os.getppid(), bytes(16), 1, bytes(16), 1, 0))
        """),
    harm(
        "changes the run's limits",
        "check(libc.prlimit(TESTER, 7, struct.pack('QQ', 0, 0), None))",
    ),
    harm("changes the run's priority", "os.setpriority(os.PRIO_PROCESS, TESTER, 19)"),
    harm("moves the run to one core", "os.sched_setaffinity(TESTER, {0})"),
    harm("becomes the superuser", "os.setuid(0)"),
    harm("makes namespaces", "check(libc.unshare(0x10000000))"),
    harm("mounts", "check(libc.mount(b'none', b'/', b'tmpfs', 0, None))"),
    harm("undoes its confinement", "check(libc.prctl(4, 1, 0, 0, 0))"),
    harm("makes executable memory", "import mmap\nmmap.mmap(-1, 4096, prot=7)"),
    harm("uring", "check(libc.syscall(425, 8, bytes(120)))"),
    harm("leaves by os._exit", "os._exit(0)"),
    harm("crashes", "ctypes.string_at(0)"),
    harm("aborts", "os.abort()"),
    harm("raises a strange exception", """
        class Strange(BaseException):
            __str__ = None
            def __init_subclass__(cls): raise SystemExit
            @property
            def __traceback__(self): raise KeyError
        raise Strange
        """),
    harm("interrupts", "raise KeyboardInterrupt"),
    harm("exits with an exception that hangs", """
        class Hanging(BaseException):
            def __str__(self):
                while True: pass
        raise Hanging
        """, TIMEOUT, slow=True),
    harm("hangs when deleted", """
        class Hanging:
            def __del__(self):
                while True: pass
        Hanging()
        """, TIMEOUT),
    harm("hangs at exit", """
        class Hanging:
            def __del__(self):
                while True: pass
        sys.modules['kept'] = Hanging()
        atexit.register(time.sleep, 60)
        """),
    harm("replaces what sends the result", """
        import accelopt.process.frames as frames
        frames.send = lambda *a: time.sleep(60)
        """, TIMEOUT, slow=True),
]  # fmt: skip
