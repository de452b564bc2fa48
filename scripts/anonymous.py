#!/usr/bin/env python3
"""anonymous.py COMMAND...: runs it and prints the peak of its anonymous memory
(RssAnon, sampled every 20 ms), its wall time and exit status. Linux only."""
import subprocess
import sys
import time

begin = time.time()
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
peak = 0
while child.poll() is None:
    try:
        for line in open(f"/proc/{child.pid}/status"):
            if line.startswith("RssAnon:"):
                peak = max(peak, int(line.split()[1]))
    except OSError:
        break
    time.sleep(0.02)
child.wait()
print(f"peak anonymous {peak / 1048576:.3f} GiB, {time.time() - begin:.1f} s, exit {child.returncode}")
sys.exit(child.returncode)
