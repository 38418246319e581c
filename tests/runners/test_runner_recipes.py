"""engines.toml: what is in it can be used, and what is wrong in another one is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from wireproof.runners.recipes import HERE, Catalogue, EngineError, Pick, fill, load

GOOD = """
[maker]
python = "3.11"
install = [["torch==1"]]

[[engine]]
name = "a"
version = "1.0"
python = "3.11"
install = [["a==1.0"]]
models = ["copy", "random"]
start = ["{python}", "-m", "a", "--port", "{port}", "--json", '{"x": {}}']
ready = "/health"
timeout = 5
label = "a==1.0"
env = { A = "{home}/a" }

[[engine]]
name = "a"
version = "2.0"
like = "a-1.0"
install = [["a==2.0"]]
"""


def read(tmp_path: Path, text: str) -> Catalogue:
    path = tmp_path / "engines.toml"
    path.write_text(text, encoding="utf-8")
    return load(path)


def test_the_engines_of_the_project() -> None:
    catalogue = load()
    assert {"vllm-0.32.0", "vllm-0.20.2", "sglang-0.5.23", "mlx-lm-0.32.2"} <= set(catalogue.engines)
    for engine in catalogue.engines.values():
        files = [word for step in engine.environment.install for word in step if "{here}" in word]
        assert all(Path(fill(word, here=str(HERE))).is_file() for word in files), engine.id
        assert set(engine.models) == (set() if engine.behind or engine.fault_path else {"copy", "random"})
        assert not engine.label or engine.label == f"{engine.name}=={engine.version}"
    digests = {e.environment.digest() for e in catalogue.engines.values()}
    assert len(digests) == len(catalogue.engines)


def test_an_engine_like_another(tmp_path: Path) -> None:
    first, second = read(tmp_path, GOOD).engines.values()
    assert (second.id, second.models, second.start, second.env) == ("a-2.0", first.models, first.start, first.env)
    assert second.environment.install == (("a==2.0",),)
    assert (first.label, second.label) == ("a==1.0", "")


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


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('version = "1.0"', "", "engine 1: version: missing"),
        ('version = "1.0"', "version = 1.0", "version: 1.0 is not a name"),
        ('version = "1.0"', 'version = "../x"', "version: '../x' is not a name"),
        ('name = "a"\nversion = "1.0"', 'name = "a"\nversion = "2.0"', "like: 'a-1.0' is no engine that comes before"),
        ("timeout = 5", "timeout = -5", "timeout: -5 is not a number of seconds above 0"),
        ("timeout = 5", "timeout = true", "timeout: True is not a number"),
        ("timeout = 5", "patience = 5", "patience: unknown"),
        ('"{port}"', '"8000"', "start: the command must be told its {port}"),
        ('"{port}"', '"{port}", "{prt}"', "start: {prt} cannot be filled in"),
        ('"{home}/a"', "1", "env: [1] is not a list of texts"),
        ('ready = "/health"', 'ready = "/health"\nmetrics = "/x"', "metrics: '/x' ends neither in /metrics nor"),
        ('"/health"', '"health"', "ready: 'health' is not a path"),
        ('"copy", ', '"big", ', "models: 'big' is none of copy, random"),
        ('[["a==1.0"]]', '["a==1.0"]', "install: 'a==1.0' is not a list of texts"),
        ('[["a==1.0"]]', '[["{model}"]]', "install: {model} cannot be filled in; {here} can"),
        ('python = "3.11"\ninstall = [["a', 'python = "3"\ninstall = [["a', "python: '3' is not a version"),
        ('like = "a-1.0"', 'like = "a-2.0"', "engine 2: like: 'a-2.0' is no engine"),
        ('version = "2.0"', 'version = "1.0"', "engine 2: a-1.0 is there twice"),
        ("[maker]", "[makers]", "makers: unknown"),
        ("[maker]", "[maker]\ncolour = 1", "maker: colour: unknown"),
        ("[[engine]]", "[engine]", "is not TOML"),
    ],
)
def test_one_error_that_names_the_key(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(EngineError) as caught:
        read(tmp_path, GOOD.replace(old, new, 1))
    assert caught.value.code == 2
    assert said in str(caught.value)
    assert str(tmp_path / "engines.toml") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_who_makes_the_models(tmp_path: Path) -> None:
    without = GOOD.split("[[engine]]", 1)[1].replace("timeout = 5", "makes_models = false")
    with pytest.raises(EngineError, match=r"a-1\.0: makes_models: false needs a \[maker\]"):
        read(tmp_path, "[[engine]]" + without)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="cannot read"):
        load(tmp_path / "absent.toml")
