"""Attacks on a box, as programs for the system's Python; each prints REACHED where it has got what it wants.

They are played in boxes, where none may get anything, and as the same user outside, where all must: a control. PRELUDE gives
them `call` (a system call by its name), `after(pid)` and what the host has laid out, in `HOST`: paths, pids, names.
"""

from __future__ import annotations

PRELUDE = r"""
import ctypes, json, os, resource, signal, socket, struct, sys, time
HOST = json.loads(sys.argv[1])
LIBC = ctypes.CDLL(None, use_errno=True)

def call(name, *arguments):
    given = [ctypes.c_char_p(a) if isinstance(a, bytes) else ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    done = LIBC.syscall(ctypes.c_long(HOST["numbers"][name]), *given)
    if done < 0:
        raise OSError(ctypes.get_errno(), name)
    return done

def child():
    pid = os.fork()
    if pid == 0:
        time.sleep(5)
        os._exit(0)
    return pid

def apart():
    call("unshare", 0x10000000 | 0x20000)

def reached(good=True):
    print("REACHED" if good else "missed", flush=True)

SECRET, OUTSIDE, FOLDER, VICTIM, SIBLING = (HOST[n] for n in ("secret", "outside", "folder", "victim", "sibling"))
"""

# Others' processes, the box's first one among them (outside, a victim stands for it).
PROCESSES = {
    "ptrace attach": "pid = child(); call('ptrace', 16, pid, 0, 0); reached()",
    "ptrace seize": "pid = child(); call('ptrace', 0x4206, pid, 0, 0); reached()",
    "ptrace traceme": "call('ptrace', 0, 0, 0, 0); reached()",
    "ptrace the first process": "call('ptrace', 0x4206, HOST['first'], 0, 0); reached()",
    "read another's memory": (
        "pid = child(); b = ctypes.create_string_buffer(8); a = id(LIBC)\n"
        "v = (ctypes.c_ulong * 2)(ctypes.addressof(b), 8); w = (ctypes.c_ulong * 2)(a, 8)\n"
        "call('process_vm_readv', pid, v, 1, w, 1, 0); reached()"
    ),
    "write another's memory": (
        "b = ctypes.create_string_buffer(8); pid = child()\n"
        "v = (ctypes.c_ulong * 2)(ctypes.addressof(b), 8)\n"
        "call('process_vm_writev', pid, v, 1, v, 1, 0); reached()"
    ),
    "take another's descriptor": "p = os.pidfd_open(child()); call('pidfd_getfd', p, 0, 0); reached()",
    "take the first process's descriptor": "p = os.pidfd_open(HOST['first']); call('pidfd_getfd', p, 1, 0); reached()",
    "compare processes": "call('kcmp', os.getpid(), os.getppid(), 0, 0, 0); reached()",
    "memory of the first process": "open(f\"/proc/{HOST['first']}/mem\", 'r+b'); reached()",
    "descriptors of the first process": "os.listdir(f\"/proc/{HOST['first']}/fd\"); reached()",
    "variables of the first process": "open(f\"/proc/{HOST['first']}/environ\").read(); reached()",
    "mappings of the first process": "reached(bool(open(f\"/proc/{HOST['first']}/maps\").read()))",
    "folder of the first process": "os.listdir(f\"/proc/{HOST['first']}/cwd\"); reached()",
    "limits of the first process": ("resource.prlimit(HOST['first'], resource.RLIMIT_CORE, (0, 0)); reached()"),
    "signal a victim": "os.kill(VICTIM, signal.SIGUSR1); reached()",
    "signal a victim by a handle": "signal.pidfd_send_signal(os.pidfd_open(VICTIM), signal.SIGUSR1); reached()",
    "limits of a victim": "resource.prlimit(VICTIM, resource.RLIMIT_CORE, (0, 0)); reached()",
    "priority of a victim": "os.setpriority(os.PRIO_PROCESS, VICTIM, 18); reached()",
    "priority of the user's processes": "os.setpriority(os.PRIO_USER, os.getuid(), 19); reached()",
    "processors of a victim": "os.sched_setaffinity(VICTIM, {0}); reached()",
    "scheduler of a victim": "os.sched_setscheduler(VICTIM, os.SCHED_BATCH, os.sched_param(0)); reached()",
    "disk priority of a victim": "call('ioprio_set', 1, VICTIM, 2 << 13 | 7); reached()",
    "memory of a victim": "open(f'/proc/{VICTIM}/mem', 'r+b'); reached()",
    "variables of a victim": "open(f'/proc/{VICTIM}/environ').read(); reached()",
    "files by way of a victim": "open(f'/proc/{VICTIM}/root{SECRET}').read(); reached()",
    "pages of a victim": "call('move_pages', VICTIM, 0, 0, 0, 0, 0); reached()",
}

# Objects that are no files, and the kernel's own interfaces.
KERNEL = {
    "a key": "call('add_key', b'user', b'bpo-test', b'x', 1, -2); reached()",
    "a keyring": "call('keyctl', 1, b'bpo-test'); reached()",
    "what keys there are": "call('keyctl', 0, -4, 1); reached()",
    "shared memory": "n = call('shmget', 0, 4096, 0o1600); call('shmctl', n, 0, 0); reached()",
    "a semaphore": "n = call('semget', 0, 1, 0o1600); call('semctl', n, 0, 0, 0); reached()",
    "a message queue": "n = call('msgget', 0, 0o1600); call('msgctl', n, 0, 0); reached()",
    "a message queue by name": (
        "call('mq_open', b'bpo-test', os.O_CREAT | os.O_RDWR, 0o600, 0); call('mq_unlink', b'bpo-test'); reached()"
    ),
    "a file in memory": "call('memfd_create', b'x', 0); reached()",
    "faults of pages": "call('userfaultfd', 1); reached()",
    "a ring of calls": "call('io_uring_setup', 1, ctypes.create_string_buffer(256)); reached()",
    "asynchronous calls": "n = ctypes.c_ulong(); call('io_setup', 1, ctypes.byref(n)); reached()",
    "a user namespace": "call('unshare', 0x10000000); reached()",
    "a user namespace by clone": "p = call('clone', 0x10000011, 0, 0, 0, 0); p or os._exit(0); reached()",
    "a user namespace by clone3": (
        "a = struct.pack('=11Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)\n"
        "p = call('clone3', a, 88); p or os._exit(0); reached()"
    ),
    "a mount": "apart(); call('mount', b'none', b'/tmp', b'tmpfs', 0, b''); reached()",
    "a mount in new style": "apart(); call('fsopen', b'tmpfs', 0); reached()",
    "a copy of the mounts": "apart(); call('open_tree', -100, b'/', 0x8001); reached()",
    "another root": "call('unshare', 0x10000000); call('chroot', b'/'); reached()",
    "another host name": "call('unshare', 0x14000000); call('sethostname', b'x', 1); reached()",
    "a file by its handle": (
        "h = struct.pack('=Ii', 128, 0) + bytes(128); n = ctypes.c_int()\n"
        "b = ctypes.create_string_buffer(h); call('name_to_handle_at', -100, b'/', b, ctypes.byref(n), 0); reached()"
    ),
    "memory that can be run": "call('personality', 0x400000); reached()",
    "the clock's state": "call('adjtimex', ctypes.create_string_buffer(256)); reached()",
    "larger buffers of sockets": (
        "a, b = socket.socketpair(); old = a.getsockopt(1, 7); a.setsockopt(1, 7, old * 2); reached(a.getsockopt(1, 7) > old)"
    ),
    "larger pipes": "import fcntl; r, w = os.pipe(); fcntl.fcntl(w, 1031, 2**19); reached()",
}

# Networks, other machines and other programs' sockets.
SOCKETS = {
    "a port of the host": "socket.create_connection(('127.0.0.1', HOST['port']), 1); reached()",
    "a datagram to the host": (
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.5)\n"
        "s.sendto(b'ping', ('127.0.0.1', HOST['datagrams'])); reached(s.recv(4) == b'pong')"
    ),
    "a socket by its path": "socket.socket(socket.AF_UNIX).connect(HOST['socket']); reached()",
    "a socket by its name": "socket.socket(socket.AF_UNIX).connect('\\0' + HOST['abstract']); reached()",
    "a socket by way of a pair": (
        "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.connect(HOST['datagram']); a.send(b'x'); reached()"
    ),
    "a virtual machine's host": "socket.socket(40, socket.SOCK_STREAM); reached()",
    "the kernel's events": "socket.socket(16, socket.SOCK_RAW, 15); reached()",
    "a list of sockets": "socket.socket(16, socket.SOCK_RAW, 4); reached()",
    "the audit": "socket.socket(16, socket.SOCK_RAW, 9); reached()",
}

# Files of the host that belong to the boxes' user, of siblings, and of what boxes may only read.
_WAYS = {
    "mode": "os.chmod({path}, 0o777)",
    "mode from a folder": "d = os.open('/', os.O_PATH); os.chmod({path}[1:], 0o777, dir_fd=d)",
    "mode in new style": "call('fchmodat2', -100, {path}.encode(), 0o777, 0)",
    "group": "os.chown({path}, -1, os.getgid())",
    "times": "os.utime({path}, (1, 1))",
    "times in old style": "LIBC.utimes({path}.encode(), 0) and 1 / 0",
    "attribute": "os.setxattr({path}, b'user.x', b'1')",
    "content": "open({path}, 'a').write('x')",
    "length": "os.truncate({path}, 0)",
    "name": "os.rename({path}, {path} + '.moved'); os.rename({path} + '.moved', {path})",
    "what it says": "open({path}).read()",
}
FILES = {
    **{f"{what} of a file outside": f"{way.format(path='OUTSIDE')}; reached()" for what, way in _WAYS.items()},
    **{
        f"{what} of a sibling's file": f"{_WAYS[what].format(path='SIBLING')}; reached()"
        for what in ("mode", "times", "content", "what it says")
    },
    **{
        f"{what} of a file that boxes may read": f"p = HOST['readable']; {_WAYS[what].format(path='p')}; reached()"
        for what in ("mode", "mode in new style", "group", "times", "attribute", "content", "length", "name")
    },
    "mode by a descriptor": "os.fchmod(os.open(HOST['readable'], os.O_RDONLY), 0o777); reached()",
    "times by a descriptor": "os.utime(os.open(HOST['readable'], os.O_RDONLY), (1, 1)); reached()",
    "flags by a descriptor": (
        "import fcntl; fcntl.ioctl(os.open(HOST['readable'], os.O_RDONLY), 0x40086602, struct.pack('=q', 0x80)); reached()"
    ),
    "mode through a link": "os.symlink(OUTSIDE, 'link'); os.chmod('link', 0o777); reached()",
    "mode through a folder's link": "os.symlink(FOLDER, 'way'); os.chmod('way/' + os.path.basename(OUTSIDE), 0o777); reached()",
    "mode through a descriptor's name": ("d = os.open(OUTSIDE, os.O_PATH); os.chmod(f'/proc/self/fd/{d}', 0o777); reached()"),
    "times of a link outside": "os.utime(HOST['link'], (1, 1), follow_symlinks=False); reached()",
    "a second name": "os.link(OUTSIDE, 'twin'); reached()",
    "a name taken in": "os.rename(OUTSIDE, 'mine'); os.rename('mine', OUTSIDE); reached()",
    "a new file outside": "open(FOLDER + '/new', 'w').close(); os.unlink(FOLDER + '/new'); reached()",
    "a new folder outside": "os.mkdir(FOLDER + '/new'); os.rmdir(FOLDER + '/new'); reached()",
    "a new link outside": "os.symlink('x', FOLDER + '/new'); os.unlink(FOLDER + '/new'); reached()",
    "a new pipe outside": "os.mkfifo(FOLDER + '/new'); os.unlink(FOLDER + '/new'); reached()",
    "the secret": "reached(bool(open(SECRET).read()))",
    "names outside": "os.listdir(FOLDER); reached()",
    "what happens outside": "n = LIBC.inotify_init(); reached(LIBC.inotify_add_watch(n, FOLDER.encode(), 0xFFF) > 0)",
    "shared memory's files": "open(HOST['shared']).read(); reached()",
    "the host's temporary files": "open(HOST['temporary']).read(); reached()",
}

ATTACKS = {**PROCESSES, **KERNEL, **SOCKETS, **FILES}

# Plays all attacks that standard input names, each in a process group of its own, and prints as JSON what each said.
DRIVER = (
    PRELUDE
    + r"""
said = {}
for name, code in json.load(sys.stdin).items():
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        signal.alarm(5)
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        os.close(reading)
        try:
            exec(code)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", flush=True)
        os._exit(0)
    os.close(writing)
    os.waitpid(pid, 0)
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        pass
    os.set_blocking(reading, False)
    try:
        said[name] = os.read(reading, 2000).decode(errors="replace")
    except BlockingIOError:
        said[name] = ""
    os.close(reading)
print("SAID " + json.dumps(said), flush=True)
"""
)
