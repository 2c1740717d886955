"""Proxies, hubs, ports and the clock: asked over real sockets of this machine."""

import os
import socket
import threading
import time
from dataclasses import replace
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from trainwright.doctor.network import Hub, masked, proxies_in, proxy_for, see_network, see_port, start_network
from trainwright.doctor.records import Asked, Network, Port, Road, Weights
from trainwright.recipe.schema import Recipe

DEAD = "http://127.0.0.1:1"  # nobody listens there
SECRET = "pa@ss:w/rd"


def seen(environment, *hubs, root=Path("/nowhere"), seconds=5.0):
    return see_network(start_network(hubs, environment), environment, seconds, root)


@pytest.fixture
def server():
    """Starts web servers that answer every request with a status and a date, and remember the paths."""
    running = []

    def start(status=200, ahead=0.0):
        class Handler(BaseHTTPRequestHandler):
            paths = []

            def do_GET(self):
                self.paths.append(self.path)
                self.send_response_only(status)
                self.send_header("Date", formatdate(time.time() + ahead, usegmt=True))
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_arguments):
                pass

        one = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        running.append(one)
        threading.Thread(target=one.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return f"http://127.0.0.1:{one.server_port}", Handler.paths

    yield start
    for one in running:
        one.shutdown()
        one.server_close()


# -- addresses -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://user:secret@proxy.example:3128", "http://***@proxy.example:3128"),
        (f"http://user:{SECRET}@proxy.example:3128/", "http://***@proxy.example:3128/"),
        ("user:secret@proxy:1", "***@proxy:1"),
        ("socks5://token@host", "socks5://***@host"),
        ("https://hf-mirror.com?token=secret#x", "https://hf-mirror.com"),
        ("http://proxy.example:3128", "http://proxy.example:3128"),
    ],
)
def test_credentials_are_left_out_of_an_address(address, shown):
    assert masked(address) == shown


def test_the_small_letters_win_and_the_scheme_before_all():
    environment = {"HTTPS_PROXY": "http://big:1", "https_proxy": "http://small:2", "all_proxy": "http://all:3"}
    assert proxies_in(environment) == {"https_proxy": "http://small:2", "all_proxy": "http://all:3"}
    assert proxy_for("https://hub.example/x", environment) == "http://small:2"
    assert proxy_for("http://hub.example/x", environment) == "http://all:3"
    assert proxy_for("https://hub.example/x", {"HTTPS_PROXY": "big:1"}) == "http://big:1"


@pytest.mark.parametrize("exempt", ["hub.example", ".example", "a.b, hub.example", "*"])
def test_an_exempt_host_is_asked_directly(exempt):
    environment = {"https_proxy": "http://p:1", "no_proxy": exempt}
    assert proxy_for("https://hub.example/x", environment) is None


# -- asked over sockets ----------------------------------------------------------------------------------------------


def test_a_hub_that_answers_and_one_that_does_not(server, facts_of, found):
    alive, _paths = server()
    network = seen({}, Hub("hf", DEAD), Hub("hf-mirror", alive))
    assert sorted((road.hub, road.way, bool(road.error)) for road in network.roads) == [
        ("hf", "direct", True), ("hf-mirror", "direct", False),
    ]  # fmt: skip
    check = found(replace(facts_of(), network=network))["network.hub"]
    assert (check.verdict, check.fix) == ("note", None)  # the mirror does


def test_where_no_hub_answers_a_recipe_that_needs_one_is_blocked(facts_of, found, tmp_path):
    network = seen({}, Hub("hf", DEAD))
    facts = replace(facts_of(), network=network)
    assert found(facts)["network.hub"].verdict == "warning"
    assert "packaged" in found(facts)["network.hub"].fix.text
    assert found(replace(facts, asked=asked(tmp_path, True)))["network.hub"].verdict == "blocker"
    assert found(replace(facts, asked=asked(tmp_path, False)))["network.hub"].verdict == "note"


def asked(tmp_path, from_hub):
    recipe = Recipe.model_validate({"name": "a", "model": "someone/tiny", "data": {"train": "a.csv"}})
    return Asked(recipe, tmp_path, from_hub)


def test_a_dead_proxy_in_the_way_of_a_hub_that_answers_directly_is_taken_away(server, facts_of, found):
    alive, _paths = server()
    environment = {"http_proxy": f"http://user:{SECRET}@127.0.0.1:1"}
    network = seen(environment, Hub("hf", alive))
    assert {road.way: bool(road.error) for road in network.roads} == {"proxy": True, "direct": False}
    checks = found(replace(facts_of(), network=network, environment=environment))
    assert checks["network.proxy"].verdict == "warning"
    assert checks["network.proxy"].fix.command == "unset HTTP_PROXY http_proxy"
    assert checks["network.hub"].fix.command == "unset HTTP_PROXY http_proxy"
    assert checks["network.localhost"].fix.variables["no_proxy"] == "localhost,127.0.0.1"
    assert SECRET not in repr(checks)
    assert SECRET not in repr(network)


def test_a_living_proxy_is_really_asked_for_the_hub(server):
    proxy, paths = server()
    network = seen({"http_proxy": proxy}, Hub("hf", "http://hub.invalid"))
    assert {road.way: bool(road.error) for road in network.roads} == {"proxy": False, "direct": True}
    assert paths == ["http://hub.invalid/"]
    assert network.proxy_errors == {"http_proxy": ""}


@pytest.mark.parametrize(("status", "failed"), [(200, False), (404, False), (407, True), (502, True)])
def test_an_answer_in_a_hubs_place_is_none(server, status, failed):
    alive, _paths = server(status)
    assert [bool(road.error) for road in seen({}, Hub("hf", alive)).roads] == [failed]


def test_who_exempts_this_machine_hears_nothing_of_it(facts_of, found):
    environment = {"https_proxy": DEAD, "http_proxy": DEAD, "no_proxy": "localhost,127.0.0.1"}
    assert "network.localhost" not in found(replace(facts_of(), network=seen(environment), environment=environment))


def test_the_exemptions_that_are_there_stay(facts_of, found):
    environment = {"http_proxy": DEAD, "no_proxy": "a.example"}
    check = found(replace(facts_of(), network=seen(environment), environment=environment))["network.localhost"]
    assert check.fix.variables["no_proxy"] == "a.example,localhost,127.0.0.1"


def test_a_hub_that_says_nothing_is_not_waited_for(facts_of, found):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes the connection and never answers
        network = seen({}, Hub("hf", f"http://127.0.0.1:{silent.getsockname()[1]}"), seconds=0.3)
    assert network.roads == []
    assert found(replace(facts_of(), network=network))["network.hub"].verdict == "not available"


def test_offline_means_that_nobody_is_asked(server, facts_of, found):
    alive, paths = server()
    network = seen({"HF_HUB_OFFLINE": "1"}, Hub("hf", alive))
    assert (network.roads, paths) == ([], [])
    assert "HF_HUB_OFFLINE" in found(replace(facts_of(), network=network))["network.hub"].message


def test_the_weights_are_asked_for_only_where_the_hub_answers(server, facts_of, found, tmp_path):
    alive, _paths = server()
    hubs = [
        Hub("hf", DEAD, lambda: pytest.fail("asked")),
        Hub("hf-mirror", alive, lambda: Weights("hf-mirror", True, "")),
    ]
    network = seen({}, *hubs)
    assert network.weights == [Weights("hf-mirror", True, "")]
    facts = replace(facts_of(), asked=asked(tmp_path, True))
    assert "network.weights" not in found(replace(facts, network=network))
    refused = replace(network, weights=[Weights("hf-mirror", False, "it lacks its weights")])
    check = found(replace(facts, network=refused))["network.weights"]
    assert (check.verdict, "lacks its weights" in check.message) == ("blocker", True)


@pytest.mark.parametrize(("ahead", "verdict"), [(600, "warning"), (-600, "warning"), (5, None)])
def test_the_clock_is_compared_with_a_hub_that_answers(server, facts_of, found, ahead, verdict):
    alive, _paths = server(ahead=ahead)
    check = found(replace(facts_of(), network=seen({}, Hub("hf", alive)))).get("network.clock")
    assert (check.verdict if check else None) == verdict


def test_one_wrong_clock_of_two_is_the_other_ones(facts_of, found):
    roads = [Road("hf", "https://a", "direct", skew=900.0), Road("hf-mirror", "https://b", "direct", skew=0.4)]
    assert "network.clock" not in found(replace(facts_of(), network=Network(roads=roads)))


def test_a_mirror_is_shown_without_its_credentials(facts_of, found):
    environment = {"HF_ENDPOINT": f"https://me:{SECRET}@mirror.example", "PIP_INDEX_URL": "https://pip.example/simple"}
    network = seen(environment)
    assert network.mirrors == {
        "HF_ENDPOINT": "https://***@mirror.example",
        "PIP_INDEX_URL": "https://pip.example/simple",
    }
    assert found(replace(facts_of(), network=network, environment=environment))["network.mirror"].verdict == "note"


# -- ports ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["127.0.0.1", ""])
def test_a_taken_port_is_told_with_its_holder(tmp_path, address, facts_of, found):
    with socket.create_server((address, 0)) as listening:
        number = listening.getsockname()[1]
        port = see_port(number, {}, tmp_path)
        assert port.holder is not None
        assert port.holder == "" or str(os.getpid()) in port.holder
        check = found(replace(facts_of(), network=Network(ports=[port])))["network.port"]
        assert (check.verdict, str(number) in check.message) == ("note", True)
    assert see_port(number, {}, tmp_path) == Port(number)


def test_the_public_address_on_autodl_comes_from_a_variable_or_from_its_file_and_nothing_else_does(tmp_path):
    file = tmp_path / "init" / "others" / "help"
    file.parent.mkdir(parents=True)
    file.write_text(
        "export AutodlAutoPanelToken=jupyter-secret\n"
        'export AutoDLService6006URL="https://u1-x.westc.seetacloud.com:8443"\n'
        "export AutoDLService6008URL=\n"
    )
    assert see_port(6006, {}, tmp_path).address == "https://u1-x.westc.seetacloud.com:8443"
    assert see_port(6008, {}, tmp_path).address is None
    given = {"AutoDLService6006URL": "https://given.example:8443"}
    assert see_port(6006, given, tmp_path).address == "https://given.example:8443"
    assert "secret" not in repr(see_network(start_network([], {}), {}, 0, tmp_path))
