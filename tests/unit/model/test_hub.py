"""Which hub is chosen, asked over real sockets."""

import subprocess
import sys

import pytest

from fakehub import MODEL, FakeHub
from trainwright.errors import ModelError
from trainwright.model.hub import Door, choose_door, doors, is_hub_id, probe, split_revision, token_for

DEAD = "http://127.0.0.1:1"  # nobody listens there
WEIGHTS = {"config.json": b"{}", "model.safetensors": b"\x08\0\0\0\0\0\0\0" + b"w" * 500}


@pytest.fixture
def hubs(monkeypatch, fake_hub, fake_mirror) -> tuple[FakeHub, FakeHub]:
    """The hub itself and a mirror, with the same model; ModelScope does not answer."""
    monkeypatch.setenv("HF_ENDPOINT", fake_hub.endpoint + "/")  # a slash at the end is what people write
    monkeypatch.setenv("TRAINWRIGHT_HF_MIRROR", fake_mirror.endpoint)
    monkeypatch.setenv("MODELSCOPE_ENDPOINT", DEAD)
    fake_hub.files, fake_mirror.files = dict(WEIGHTS), dict(WEIGHTS)
    return fake_hub, fake_mirror


def test_the_hub_itself_is_taken_where_it_sends_weights_and_no_mirror_is_asked(hubs):
    hub, mirror = hubs
    door, because = choose_door(MODEL, None, "auto")
    assert (door.hub, door.endpoint) == ("hf", hub.endpoint)
    assert "first bytes" in because
    assert mirror.requests == []


def test_no_more_than_the_first_bytes_of_the_weights_are_asked_for(hubs):
    hub, _mirror = hubs
    choose_door(MODEL, None, "auto")
    assert [(server, headers["range"]) for server, _path, headers in hub.requests] == [
        ("hub", "bytes=0-15"),
        ("storage", "bytes=0-15"),
    ]


def test_a_blocked_hub_gives_way_to_a_mirror_and_the_reason_names_both(hubs, monkeypatch):
    _hub, mirror = hubs
    monkeypatch.setenv("HF_ENDPOINT", DEAD)
    door, because = choose_door(MODEL, None, "auto")
    assert (door.hub, door.endpoint) == ("hf-mirror", mirror.endpoint)
    assert "127.0.0.1:1 does not answer" in because


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ("missing", "without its weights"),
        ("pointer", "a pointer in place of model.safetensors"),
        ("page", "a web page in place of model.safetensors"),
        ("elsewhere", r"answers, but its weights lie on 127\.0\.0\.1:1, which does not"),
    ],
)
def test_a_mirror_that_has_metadata_and_no_weights_is_passed_over(hubs, monkeypatch, weights, said):
    hub, mirror = hubs
    hub.weights = "elsewhere"
    mirror.weights = weights
    with pytest.raises(ModelError, match=said):
        choose_door(MODEL, None, "auto")
    hub.weights = "here"
    assert choose_door(MODEL, None, "auto")[0].hub == "hf"


def test_a_model_in_parts_is_probed_by_its_first_part(hubs):
    hub, _mirror = hubs
    index = b'{"weight_map": {"b": "model-00002-of-00002.safetensors", "a": "model-00001-of-00002.safetensors"}}'
    hub.files = {"model.safetensors.index.json": index, "model-00001-of-00002.safetensors": b"w" * 99}
    assert choose_door(MODEL, None, "hf")[0].hub == "hf"
    assert hub.requests[-1][:2] == ("storage", "/model-00001-of-00002.safetensors")


@pytest.mark.parametrize(
    ("refuse", "state"),
    [
        ((401, "GatedRepo"), "refused"),
        ((403, ""), "refused"),
        ((401, "RepoNotFound"), "missing"),
        ((404, "RepoNotFound"), "missing"),
        ((404, "RevisionNotFound"), "no revision"),
        ((429, ""), "busy"),
        ((503, ""), "busy"),
    ],
)
def test_a_refusal_is_told_apart(hubs, refuse, state):
    hub, _mirror = hubs
    hub.refuse = refuse
    assert probe(Door("hf", hub.endpoint), MODEL, "main").state == state


@pytest.mark.parametrize(
    ("refuse", "way_out"),
    [
        ((403, "GatedRepo"), "Accept its terms.*HF_TOKEN"),
        ((404, "RepoNotFound"), "Check the spelling"),
        ((404, "RevisionNotFound"), "leave out @REVISION"),
        ((429, ""), "too busy.*hub: hf-mirror"),
    ],
)
def test_each_refusal_has_its_way_out(hubs, refuse, way_out):
    hub, _mirror = hubs
    hub.refuse = refuse
    with pytest.raises(ModelError, match=way_out):
        choose_door(MODEL, None, "hf")


def test_where_the_hub_itself_does_not_know_a_name_no_stranger_is_asked(hubs, monkeypatch):
    hub, mirror = hubs
    hub.refuse = (404, "RepoNotFound")
    monkeypatch.setattr("trainwright.model.hub.OWN_HOSTS", ("127.0.0.1",))
    with pytest.raises(ModelError, match="spelling"):
        choose_door(MODEL, None, "auto")
    assert mirror.requests == []


def test_a_token_goes_to_its_own_hub_and_to_no_mirror_unless_the_user_says_so(hubs, monkeypatch):
    hub, mirror = hubs
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert token_for(Door("hf", "https://huggingface.co")) == "hf_secret"
    choose_door(MODEL, None, "hf-mirror")
    choose_door(MODEL, None, "hf")  # HF_ENDPOINT names another host: a mirror, too
    assert all("authorization" not in headers for _s, _p, headers in hub.requests + mirror.requests)
    monkeypatch.setenv("TRAINWRIGHT_TOKEN_TO_MIRROR", "1")
    choose_door(MODEL, None, "hf-mirror")
    sent = [(server, headers.get("authorization")) for server, _p, headers in mirror.requests[-2:]]
    assert sent == [("hub", "Bearer hf_secret"), ("storage", None)]  # never to the storage on another port


def test_a_token_that_a_login_left_in_a_file_is_found(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    (tmp_path / "token").write_text("hf_file\n")
    assert token_for(Door("hf", "https://huggingface.co")) == "hf_file"
    assert token_for(Door("hf", "https://mirror.example")) is None
    assert token_for(Door("modelscope", "https://huggingface.co")) is None


@pytest.mark.parametrize("name", ["google-bert/bert-base-chinese", "bert-base-chinese", "a/b@v1.0", f"a/b@{'0' * 40}"])
def test_a_name_that_can_be_an_id(name):
    assert is_hub_id(name)


@pytest.mark.parametrize("name", ["a/b/c", "models/../x", "my model", "a/b--c", "packaged:x", "", "./a"])
def test_a_name_that_cannot(name):
    assert not is_hub_id(name)


def test_a_revision_is_split_off():
    assert split_revision("a/b@v1") == ("a/b", "v1")
    assert split_revision("a/b") == ("a/b", None)


def test_addresses_have_a_scheme_and_no_slash(monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "hf.example/")
    assert doors("hf") == [Door("hf", "https://hf.example")]
    assert [door.hub for door in doors("auto")] == ["hf", "hf-mirror", "modelscope"]


def test_choosing_imports_nothing_that_reads_its_address_at_import(fake_hub):
    fake_hub.files = dict(WEIGHTS)
    code = (
        "import sys; from trainwright.model.hub import choose_door;"
        f"print(choose_door({MODEL!r}, None, 'hf')[0].endpoint, 'huggingface_hub' in sys.modules)"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={"HF_ENDPOINT": fake_hub.endpoint, "PYTHONPATH": ":".join(sys.path), "HOME": "/nowhere"},
    )  # fmt: skip
    assert told.stdout.split() == [fake_hub.endpoint, "False"]
