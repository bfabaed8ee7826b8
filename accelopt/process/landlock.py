"""Landlock: a process gives up files, TCP, and signals to the processes outside; Linux 5.13 on."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from contextlib import suppress

from accelopt.process import linux

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH = 1
_GET_VERSION = 1

# Rights on files by the version that knows them; a right that is handled and never granted is lost.
_FILE_RIGHTS = {1: 0x1FFF, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
# To run and read; and, of a plain file or a device, what there is beside making and removing.
_READ = 0b1101
_OF_A_FILE = 0b111 | 1 << 14 | 1 << 15
_NETWORK_VERSION, _TCP_BIND_AND_CONNECT = 4, 0b11
_SCOPE_VERSION, _ABSTRACT_SOCKETS_AND_SIGNALS = 6, 0b11


def version() -> int:
    """Version of the kernel's Landlock; 0 where there is none."""
    if not linux.IS_LINUX:
        return 0
    with suppress(OSError):
        return linux.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(_GET_VERSION))
    return 0


def restrict(*, files: bool, readable: Iterable[str] = (), writable: Iterable[str] = ()) -> int:
    """Give up TCP and signals to processes outside, and with `files` the file system.

    What was opened before stays usable. The process must have given up gaining rights. What the
    kernel's version does not know stays allowed.

    Args:
        files: whether to give up the file system.
        readable: files and folders that can still be read, and run, with all below them.
        writable: the same, for every use. What does not exist is left out of both.

    Returns:
        the kernel's version; 0 when nothing was done.

    Raises:
        OSError: the kernel refused.
    """
    known = version()
    rights = sum(bits for since, bits in _FILE_RIGHTS.items() if known >= since) if files else 0
    network = _TCP_BIND_AND_CONNECT if known >= _NETWORK_VERSION else 0
    scopes = _ABSTRACT_SOCKETS_AND_SIGNALS if known >= _SCOPE_VERSION else 0
    if not rights | network | scopes:
        return 0
    # struct landlock_ruleset_attr grew with the versions.
    fields = 3 if known >= _SCOPE_VERSION else 2 if known >= _NETWORK_VERSION else 1
    attributes = struct.pack(f"<{fields}Q", *(rights, network, scopes)[:fields])
    rules = linux.syscall(
        _CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0)
    )
    try:
        for path in readable if rights else ():
            _allow(rules, path, rights & _READ)
        for path in writable if rights else ():
            _allow(rules, path, rights)
        linux.syscall(_RESTRICT_SELF, ctypes.c_int(rules), ctypes.c_uint(0))
    finally:
        os.close(rules)
    return known


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    try:
        if not os.path.isdir(path):
            rights &= _OF_A_FILE
        # struct landlock_path_beneath_attr is packed.
        attribute = struct.pack("<Qi", rights, place)
        linux.syscall(
            _ADD_RULE, ctypes.c_int(rules), ctypes.c_int(_PATH_BENEATH), attribute, ctypes.c_uint(0)
        )
    finally:
        os.close(place)


def is_active() -> bool:
    """Whether this process has lost the file system: not even a folder opens."""
    try:
        os.close(os.open("/", os.O_RDONLY | os.O_DIRECTORY))
    except PermissionError:
        return True
    return False
