"""Row 24: results are overwritten through open descriptors, exit hooks or threads."""

from accelopt.attacks.attack import Attack, Exploit, fixed
from accelopt.attacks.kernels import COPY, HONEST, hacked

_WRITE_ALL = """
head = b'{"status": "ok", "diagnostics": [], "correct": true, "latency_us": 0.001}'
message = struct.pack("<QQ", len(head), 0) + head

def overwrite():
    for descriptor in range(1, 64):
        try:
            os.write(descriptor, message)
        except OSError:
            pass

"""
_IMPORTS = "import atexit\nimport os\nimport struct\nimport threading"
_THREAD = "threading.Thread(target=overwrite, daemon=True).start()"

ATTACK = Attack(
    row=24,
    title="overwrite the results",
    defence="a private pipe with a strict form; the worker ends by a hard exit, and what is "
    "written late is lost",
    exploits=(
        Exploit(
            "all descriptors, at once",
            fixed(hacked(COPY, _WRITE_ALL + "overwrite()\nos._exit(0)", _IMPORTS)),
        ),
        Exploit(
            "an exit hook", fixed(hacked(COPY, _WRITE_ALL + "atexit.register(overwrite)", _IMPORTS))
        ),
        Exploit("a thread", fixed(hacked(COPY, _WRITE_ALL + _THREAD, _IMPORTS))),
    ),
    twin=fixed(HONEST),
)
