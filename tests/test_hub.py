"""The image for a JupyterHub or Binder, read without building it, and the measurement of a room."""

import json
import re
import sys

import pytest
from lesson_files import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

import room
from room import RoomError

DOCKERFILE = (ROOT / ".binder/Dockerfile").read_text()


def test_what_the_image_runs_and_copies_is_there():
    """Every file that a step names, and the level that setup.sh knows."""
    assert re.findall(r"tools/\S+\.sh \S+ \S+", DOCKERFILE) == ["tools/setup.sh .venv learner"]
    for name in re.findall(r"(?:^RUN |&& (?:cp )?)((?:tools|\.binder)/\S+)", DOCKERFILE, re.M):
        assert (ROOT / name).exists(), name
    assert "tools/setup.sh" in DOCKERFILE and "cp .binder/jupyter_server_config.json" in DOCKERFILE


def test_what_a_learner_has_on_the_hub_is_not_in_the_home():
    """A hub mounts a folder over the home."""
    assert DOCKERFILE.index("WORKDIR /srv/course") < DOCKERFILE.index("RUN tools/setup.sh")
    assert "ENV PATH=/srv/course/.venv/bin:$PATH" in DOCKERFILE and DOCKERFILE.rstrip().endswith("]")
    assert DOCKERFILE.index("USER $NB_UID") > DOCKERFILE.index("useradd")


def test_the_server_of_the_image_has_the_settings_of_make_lab():
    settings = json.loads((ROOT / ".binder/jupyter_server_config.json").read_text())
    lab = (ROOT / "tools/lab.sh").read_text()
    assert f"contents_manager_class={settings['ServerApp']['contents_manager_class']}" in lab
    assert f"transport_encryption={settings['KernelManager']['transport_encryption']}" in lab
    hidden = re.search(r"for hidden in (.*?); do", lab)[1].replace("'", "").split()
    assert settings["ContentsManager"]["hide_globs"] == hidden


def test_an_environment_does_not_get_into_the_image():
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {".venv*", "build", ".git"} <= set(ignored)


def test_the_pinned_extras_are_exact_and_stated_in_the_page():
    page = (ROOT / "docs/hub.md").read_text()
    assert (jupyterhub := re.search(r"^ARG JUPYTERHUB=([\d.]+)$", DOCKERFILE, re.M)[1]) in page
    assert re.search(r"nbgitpuller==[\d.]+", DOCKERFILE) and jupyterhub.count(".") == 2


def test_the_cells_of_a_learner_are_the_exercise_alone():
    setup, answer, check = room.cells("07.2")
    assert setup.startswith("# @title Run me first.") and "few_rows" not in setup + answer
    assert "def scaled_kernel" in answer and "def scaled(" in answer
    assert check == 'assert checks.check("07.2", scaled).passed'
    with pytest.raises(RoomError, match="no check of 40.1: --exercise is one of the course's, such as 07.1"):
        room.cells("40.1")


def test_a_room_without_memory_is_not_measured(monkeypatch):
    monkeypatch.setattr(room, "_KEEP_FREE", 2**60)
    with pytest.raises(RoomError, match="2 learners do not fit: .* MiB are left"):
        room.room(2, "01.1")


def test_the_spread_of_times():
    assert room._spread_of([1.0, 3.0]) == (2.0, 3.0, 3.0)
    assert room._spread_of([float(number) for number in range(1, 101)]) == (50.5, 95.0, 100.0)


# Two learners, a quarter of a minute: `make test` has the parts of the measurement above.
@pytest.mark.sweep
def test_two_learners_get_their_verdicts():
    found = room.room(2, "01.1")
    assert len(found.first) == len(found.second) == 2 and min(found.first) > 0
    assert 0 < found.second_work < found.first_work and 50 < found.before < found.after < 2 * found.highest
