"""A slow line between two network namespaces: each packet waits, and some are lost. What `tc netem` does, for kernels without it.

Usage, as root: python3 lossy-link.py NEAR FAR DELAY_MS LOSS_PERCENT
NEAR and FAR are the namespaces. They get 10.77.0.1 and 10.77.0.2. Prints "ready", then runs until its input ends, and prints how
many bytes of packets went from FAR to NEAR.
"""

import fcntl, os, random, select, struct, subprocess, sys, time
from collections import deque

near, far, delay_ms, loss_percent = sys.argv[1:5]
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000


def open_tun(name, namespace, address, other):
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
    run = lambda *words: subprocess.run(words, check=True)
    run("ip", "link", "set", name, "netns", namespace)
    inside = ("ip", "-n", namespace)
    run(*inside, "address", "add", address, "peer", other, "dev", name)
    run(*inside, "link", "set", name, "up", "txqueuelen", "10000")
    run(*inside, "link", "set", "lo", "up")
    return tun


tag = str(os.getpid())
ends = [
    open_tun("n" + tag, near, "10.77.0.1", "10.77.0.2"),
    open_tun("f" + tag, far, "10.77.0.2", "10.77.0.1"),
]
loss = float(loss_percent) / 100
delay = float(delay_ms) / 1000
# Packets on their way, in order: when they arrive, where, and what.
on_the_way = deque()
carried = 0
draw = random.Random(1)
print("ready", flush=True)
while True:
    wait = max(0, on_the_way[0][0] - time.monotonic()) if on_the_way else None
    readable, _, _ = select.select([*ends, 0], [], [], wait)
    if 0 in readable and os.read(0, 1) == b"":
        break
    for at in (0, 1):
        if ends[at] not in readable:
            continue
        try:
            while True:
                packet = os.read(ends[at], 65536)
                if at == 1:
                    carried += len(packet)
                if draw.random() >= loss:
                    on_the_way.append((time.monotonic() + delay, ends[1 - at], packet))
        except BlockingIOError:
            pass
    now = time.monotonic()
    while on_the_way and on_the_way[0][0] <= now:
        _, end, packet = on_the_way.popleft()
        try:
            os.write(end, packet)
        except OSError:
            pass
print(carried, flush=True)
