"""Files of engines: what is in ours can be used, a user's own may be like ours, and what is wrong in one is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from wireproof.read import engine_facts
from wireproof.runners.__main__ import main
from wireproof.runners.engine_files import ENGINES, load
from wireproof.runners.recipes import Catalogue, EngineError, Pick, fill

GOOD = """
name = "a"

[[recipe]]
version = "1.0"
python = "3.11"
install = [["a==1.0"]]
models = ["copy", "random"]
start = ["{python}", "-m", "a", "--port", "{port}", "--json", '{"x": {}}']
ready = "/health"
timeout = 5
label = "a==1.0"
env = { A = "{home}/a" }

[[recipe]]
version = "2.0"
like = "a-1.0"
install = [["a==2.0"]]
"""


def read(tmp_path: Path, text: str) -> Catalogue:
    path = tmp_path / "a.toml"
    path.write_text(text, encoding="utf-8")
    return load(path)


def test_the_engines_of_the_project() -> None:
    catalogue = load()
    assert {"vllm-0.32.0", "vllm-0.20.2", "sglang-0.5.23", "mlx-lm-0.32.2"} <= set(catalogue.engines)
    for engine in catalogue.engines.values():
        files = [word for step in engine.environment.install for word in step if "{here}" in word]
        assert all(Path(fill(word, here=str(ENGINES))).is_file() for word in files), engine.id
        assert set(engine.models) == (set() if engine.behind or engine.fault_path else {"copy", "random"})
        assert not engine.label or engine.label == f"{engine.name}=={engine.version}"
    digests = {e.environment.digest() for e in [*catalogue.engines.values()]}
    assert len(digests) == len(catalogue.engines)
    assert next(iter(catalogue.engines)) == "vllm-0.32.0"
    for path in engine_facts.files(ENGINES):
        assert f'\nname = "{path.stem}"\n' in path.read_text(encoding="utf-8"), "the file is called like the engine"


def test_an_engine_like_another(tmp_path: Path) -> None:
    first, second = read(tmp_path, GOOD).engines.values()
    assert (second.id, second.models, second.start, second.env) == ("a-2.0", first.models, first.start, first.env)
    assert second.environment.install == (("a==2.0",),)
    assert (first.label, second.label) == ("a==1.0", "")


# -- a user's own ------------------------------------------------------------------------

NEWER = """
name = "vllm"

[[recipe]]
version = "0.33.0"
like = "vllm-0.32.0"
install = [["-r", "{here}/lock.txt"]]
"""


def test_an_own_engine_like_one_of_ours(tmp_path: Path) -> None:
    """What it takes from ours stays as ours states it, and what is its own is beside its own file."""
    own = tmp_path / "mine.toml"
    own.write_text(NEWER.replace("vllm-0.32.0", "sglang-0.5.23"), encoding="utf-8")
    catalogue = load(own)
    engine = catalogue.engines["vllm-0.33.0"]
    assert list(catalogue.engines) == ["vllm-0.33.0"]
    assert engine.environment.steps == (("-r", f"{tmp_path}/lock.txt"),)
    assert engine.env["PYTHONPATH"].filled() == f"{ENGINES}/sglang_cpu"
    assert engine.start == load().engines["sglang-0.5.23"].start
    assert catalogue.pick("litellm-1.80.11:vllm-0.32.0:copy").name == "litellm-1.80.11-over-vllm-0.32.0-copy"


def test_an_own_engine_in_the_place_of_ours(tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text(NEWER.replace("0.33.0", "0.32.0"), encoding="utf-8")
    catalogue = load(own)
    picked = catalogue.pick("vllm-0.32.0").engine
    assert picked.environment.here == tmp_path and picked.models == ("copy", "random")


def test_an_own_gateway_in_front_of_ours(tmp_path: Path) -> None:
    text = """
name = "gate"

[[recipe]]
python = "3.11"
install = []
behind = ["reference", "vllm-0.32.0"]
start = ["gate", "{port}", "{upstream}"]
ready = "/"
"""
    (tmp_path / "gate.toml").write_text(text, encoding="utf-8")
    catalogue = load(tmp_path)
    assert list(catalogue.engines) == ["gate"]
    assert catalogue.pick("gate").label == "gate over reference"
    assert catalogue.pick("gate:vllm-0.32.0:copy").label == "gate over vllm 0.32.0, copy"


def test_a_folder_is_read_by_rank_and_may_be_like_across_files(tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text(GOOD.replace('name = "a"', 'name = "b"\nrank = 1'), encoding="utf-8")
    with pytest.raises(EngineError, match=r"b\.toml: recipe 2: like: 'a-1\.0' is no engine; there are vllm-0\.32\.0"):
        load(tmp_path)
    (tmp_path / "a.toml").write_text(GOOD, encoding="utf-8")
    assert list(load(tmp_path).engines) == ["b-1.0", "b-2.0", "a-1.0", "a-2.0"]


def test_like_in_a_circle(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"a\.toml: recipe 1: like: 'a-2\.0' is like it, in a circle"):
        read(tmp_path, GOOD.replace('version = "1.0"', 'version = "1.0"\nlike = "a-2.0"'))


def test_the_engines_option_before_and_after_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    read(tmp_path, GOOD)
    for words in (["--engines", str(tmp_path), "list"], ["list", "--engines", str(tmp_path / "a.toml")]):
        assert main([*words, "--home", str(tmp_path / "home")]) == 0
        assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["a-1.0", "a-2.0"]


# -- picking -----------------------------------------------------------------------------


def test_picking(tmp_path: Path) -> None:
    catalogue = read(tmp_path, GOOD)
    assert catalogue.pick("a-1.0").variant == "copy"
    assert catalogue.pick("a-2.0:random") == Pick(catalogue.engines["a-2.0"], "random")
    for name, said in (
        ("b", "no engine is called 'b'; there are a-1.0, a-2.0"),
        ("a-1.0:big", "a-1.0 has no variant 'big': choose one of copy, random"),
    ):
        with pytest.raises(EngineError) as caught:
            catalogue.pick(name)
        assert (str(caught.value), caught.value.code) == (said, 2)


def test_templates() -> None:
    assert fill("{home}/x{port}", home="/h", port="1") == "/h/x1"
    assert fill('{"a": {}} {model}', port="1") == '{"a": {}} {model}'
    assert fill("{home}", home="{port}", port="1") == "{port}"  # what was filled in is not looked at again


# -- mistakes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('version = "1.0"', "", "recipe 1: version: missing"),
        ('version = "1.0"', "version = 1.0", "version: 1.0 is not a name"),
        ('version = "1.0"', 'version = "../x"', "version: '../x' is not a name"),
        ('version = "1.0"', 'version = "3.0"', "recipe 2: like: 'a-1.0' is no engine; there are vllm-0.32.0"),
        ("timeout = 5", "timeout = -5", "timeout: -5 is not a number of seconds above 0"),
        ("timeout = 5", "timeout = true", "timeout: True is not a number"),
        ("timeout = 5", "patience = 5", "recipe 1 (a-1.0): patience: unknown"),
        ('"{port}"', '"8000"', "start: the command must be told its {port}"),
        ('"{port}"', '"{port}", "{prt}"', "start: {prt} cannot be filled in"),
        ('"{home}/a"', "1", "env: [1] is not a list of texts"),
        ('ready = "/health"', 'ready = "/health"\nmetrics = "/x"', "metrics: '/x' ends neither in /metrics nor"),
        ('"/health"', '"health"', "ready: 'health' is not a path"),
        ('"copy", ', '"big", ', "models: 'big' is none of copy, random"),
        ('[["a==1.0"]]', '["a==1.0"]', "install: 'a==1.0' is not a list of texts"),
        ('[["a==1.0"]]', '[["{model}"]]', "install: {model} cannot be filled in; {here} can"),
        ('python = "3.11"', 'python = "3"', "python: '3' is not a version"),
        ('like = "a-1.0"', 'like = "a-2.0"', "recipe 2: like: 'a-2.0' is"),
        ('like = "a-1.0"', "like = 1", "recipe 2: like: 1 is not a name"),
        ('version = "2.0"', 'version = "1.0"', "recipe 2: a-1.0 is there twice"),
        ('name = "a"', 'name = "a"\ncolour = 1', "colour: unknown"),
        ('name = "a"', 'name = "a b"', "name: 'a b' is not a name"),
        ('name = "a"', "", "name: missing; it is the engine's name"),
        ("[[recipe]]", "[recipe]", "is not TOML"),
        ("[[recipe]]", "[[engine]]", "engine: unknown; a file has one engine"),
    ],
)
def test_one_error_that_names_the_file_and_the_key(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(EngineError) as caught:
        read(tmp_path, GOOD.replace(old, new, 1))
    assert caught.value.code == 2
    assert said in str(caught.value)
    assert str(tmp_path / "a.toml") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="cannot read"):
        load(tmp_path / "absent.toml")
    with pytest.raises(EngineError, match=r"has no file of an engine: there is no \*\.toml in it"):
        load(tmp_path)
