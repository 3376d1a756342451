#!/usr/bin/env python3
# One way in which a program of a module behaves: the first argument names it.
import os, signal, subprocess, sys, time

way, temp = sys.argv[1], os.environ["TMPDIR"]
if way == "exit":
    sys.exit(int(sys.argv[2]))
elif way == "signal":
    os.kill(os.getpid(), signal.SIGTERM)
elif way == "slow":
    time.sleep(0.1)
    print("done")
elif way == "hang":
    print("on", flush=True)
    time.sleep(1000)
elif way == "ignore":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    open(temp + "/on", "w").close()
    time.sleep(1000)
elif way == "fork":
    for i in range(20):
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
    print("forked 20")
elif way == "bomb":
    while True:
        try:
            subprocess.Popen([sys.argv[0], "bomb"], start_new_session=True)
        except OSError:
            pass
elif way == "flood":
    for i in range(4):
        sys.stdout.write("x" * 1_000_000)
    sys.stdout.flush()
    print("end", file=sys.stderr)
elif way == "half":
    print("half", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
    print("done")
elif way == "eat":
    all = []
    while True:
        all.append(bytearray(1 << 26))
elif way == "files":
    for i in range(1000):
        open(f"{temp}/{i}", "w").close()
    time.sleep(1000)
elif way == "removed":
    files = []
    for i in range(8):
        files.append(open(f"{temp}/x", "wb", buffering=0))
        os.remove(f"{temp}/x")
        files[i].write(bytes(4 << 20))
    time.sleep(1000)
elif way == "bytes":
    for i in range(8):
        with open(f"{temp}/{i}", "wb") as file:
            file.write(bytes(4 << 20))
    time.sleep(1000)
