"""Compressed records are read as plain ones are; a broken or bursting one is one clear error."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest

from wireproof.stored import pack as packed_files
from wireproof.stored.files import NotATranscript, read_paths
from wireproof.stored.run_record import RecordError, read

PLAIN = b'{"choices": []}'


@pytest.mark.parametrize(("suffix", "pack"), [(".xz", lzma.compress), (".gz", gzip.compress)])
def test_packed_files_are_read(tmp_path: Path, suffix: str, pack) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / f"answer.json{suffix}"
    path.write_bytes(pack(PLAIN))
    assert packed_files.read(path) == PLAIN
    assert packed_files.suffix(path) == ".json"
    assert [t.raw for t in read_paths([path])] == [PLAIN]
    assert len(read_paths([tmp_path])) == 1


def test_a_broken_archive_says_so(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl.xz"
    path.write_bytes(lzma.compress(PLAIN)[:-9])
    with pytest.raises(RecordError, match=r"no whole \.xz file"):
        read(path)
    with pytest.raises(NotATranscript, match=r"no whole \.xz file"):
        read_paths([path])


def test_what_bursts_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_files, "LIMIT", 1000)
    path = tmp_path / "run.jsonl.gz"
    path.write_bytes(gzip.compress(b"x" * 1001))
    with pytest.raises(RecordError, match="more than 1000 bytes"):
        read(path)
