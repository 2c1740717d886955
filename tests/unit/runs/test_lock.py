import json
import os
import signal
import subprocess
import sys
import time

import pytest

from trainwright.errors import UserError
from trainwright.runs.lock import NAME, owned, owner_record

HOLD = (
    "import sys, time; from pathlib import Path; from trainwright.runs.lock import owned\n"
    "with owned(Path(sys.argv[1])):\n    print('mine', flush=True)\n    time.sleep(60)\n"
)
# waits for a common moment, then tries once and holds on for a while
START = (
    "import sys, time; from pathlib import Path; from trainwright.errors import UserError\n"
    "from trainwright.runs.lock import owned\n"
    "print('ready', flush=True); sys.stdin.readline()\n"
    "try:\n"
    "    with owned(Path(sys.argv[1])):\n        print('mine', flush=True); sys.stdin.readline()\n"
    "except UserError as error:\n    print(error, flush=True)\n"
)


def holder(folder):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "mine\n"
    return process


def test_a_second_owner_is_refused_with_host_and_process_and_the_next_one_may(tmp_path):
    with owned(tmp_path / "run"), pytest.raises(UserError, match=f"process {os.getpid()} on "), owned(tmp_path / "run"):
        pass
    with owned(tmp_path / "run"):
        pass


def test_a_killed_owner_of_this_machine_is_succeeded_at_once(tmp_path):
    process = holder(tmp_path)
    with pytest.raises(UserError, match=f"process {process.pid} "), owned(tmp_path):
        pass
    process.send_signal(signal.SIGKILL)
    process.wait()
    began = time.monotonic()
    with owned(tmp_path):
        assert json.loads((tmp_path / NAME).read_text())["pid"] == os.getpid()
    assert time.monotonic() - began < 5  # it did not wait for beats


def test_of_eight_starters_exactly_one_owns_the_folder_also_after_a_killed_owner(tmp_path):
    killed = holder(tmp_path)
    killed.kill()
    killed.wait()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    starters = [subprocess.Popen([sys.executable, "-c", START, str(tmp_path)], **pipes) for _ in range(8)]
    for starter in starters:
        assert starter.stdout.readline() == "ready\n"
    for starter in starters:
        starter.stdin.write("go\n")
        starter.stdin.flush()
    said = [starter.stdout.readline() for starter in starters]
    assert said.count("mine\n") == 1
    winner = starters[said.index("mine\n")].pid
    assert [line for line in said if line != "mine\n" and f"process {winner} " not in line] == []
    for starter in starters:
        starter.communicate("done\n", timeout=10)


def record_of_another_host(**changes):
    return json.dumps(owner_record() | {"host": "elsewhere", "pid": 4711} | changes).ljust(512)


def test_an_owner_on_another_machine_that_gives_no_sign_is_succeeded(tmp_path):
    (tmp_path / NAME).write_text(record_of_another_host())
    with owned(tmp_path, beat_seconds=0.05):
        assert json.loads((tmp_path / NAME).read_text())["host"] != "elsewhere"


def test_an_owner_on_another_machine_whose_beat_goes_on_is_not(tmp_path):
    beat = (
        "import os, sys, time, json\n"
        "file = os.open(sys.argv[1], os.O_RDWR); record = json.loads(os.pread(file, 4096, 0))\n"
        "while True:\n"
        "    record['beat'] += 1; os.pwrite(file, json.dumps(record).ljust(512).encode(), 0); time.sleep(0.05)\n"
    )
    (tmp_path / NAME).write_text(record_of_another_host())
    other = subprocess.Popen([sys.executable, "-c", beat, str(tmp_path / NAME)])
    try:
        with pytest.raises(UserError, match="process 4711 on elsewhere"), owned(tmp_path, beat_seconds=1.0):
            pass
    finally:
        other.kill()
        other.wait()


def test_a_process_that_has_the_number_of_a_dead_owner_is_no_owner(tmp_path):
    record = owner_record() | {"pid": os.getppid(), "process_began": 1.0}
    (tmp_path / NAME).write_text(json.dumps(record).ljust(512))
    with owned(tmp_path):
        pass


def test_a_torn_record_stops_nobody(tmp_path):
    (tmp_path / NAME).write_text('{"host": "els')
    with owned(tmp_path):
        pass


def test_a_process_that_a_killed_owner_left_is_waited_for(tmp_path):
    """Loader processes are forks, and hold the lock until they see that their parent is gone."""
    code = HOLD.replace(
        "    print('mine'", "    import os\n    if os.fork() == 0: time.sleep(2); os._exit(0)\n    print('mine'"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "mine\n"
    process.kill()
    process.wait()
    with owned(tmp_path):
        assert json.loads((tmp_path / NAME).read_text())["pid"] == os.getpid()
