"""Published releases: numbers are never given twice, and one damaged folder hides no other."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest
from tests.service.serving import Service, running_app

from reticent.service.published import FACTS, PublishedReleases

RELEASES = "/v1/tables/survey/releases"


@pytest.fixture
def published(service: Service) -> Path:
    return Path(f"{service.settings.tables[0].ledger}.releases")


def publish(service: Service, title: str = "x"):
    return service.client.post(RELEASES, json={"title": title, "rows": 5}, headers=service.custodian)


def listed(service: Service) -> list[str]:
    reply = service.client.get(RELEASES, headers=service.alice)
    assert reply.status_code == 200, reply.text
    return [entry["id"] for entry in reply.json()["releases"]]


def test_after_one_is_removed_publishing_goes_on_with_a_new_number(service: Service, published: Path) -> None:
    """Numbers were counted: the next one was taken, and publishing failed for ever."""
    made = [publish(service).json()["id"] for _ in range(3)]
    shutil.rmtree(published / made[0])
    fourth = publish(service)
    assert fourth.status_code == 201, fourth.text
    shutil.rmtree(published / fourth.json()["id"])
    fifth = publish(service).json()["id"]
    assert len({*made, fourth.json()["id"], fifth}) == 5, "a number that was given once means one release"
    assert listed(service)[:3] == [fifth, made[2], made[1]]


@pytest.mark.parametrize("facts", ["", "{", "[]", "null", '{"id": 3}', '{"title": 5, "rows": "x"}', None])
def test_damaged_facts_hide_their_release_alone(service: Service, published: Path, facts: str | None) -> None:
    """One empty file made every listing a 500."""
    whole, broken = publish(service).json()["id"], publish(service).json()["id"]
    if facts is None:
        (published / broken / FACTS).unlink()
    else:
        (published / broken / FACTS).write_text(facts)
    assert whole in listed(service)
    assert broken not in listed(service)
    assert service.client.get(f"{RELEASES}/{broken}/csv", headers=service.alice).status_code == 404
    assert service.client.get(f"{RELEASES}/{whole}/csv", headers=service.alice).status_code == 200
    assert publish(service).json()["id"] > broken


def test_a_file_that_is_gone_is_not_found(service: Service, published: Path) -> None:
    made = publish(service).json()["id"]
    (published / made / "synthetic.csv").unlink()
    assert service.client.get(f"{RELEASES}/{made}/csv", headers=service.alice).status_code == 404
    assert service.client.get(f"{RELEASES}/{made}/parquet", headers=service.alice).status_code == 200


def test_numbers_are_in_order_beyond_four_digits(tmp_path: Path) -> None:
    for name in ("r9999", "r10000", "other", "r1"):
        (tmp_path / name).mkdir()
    published = PublishedReleases(tmp_path)
    assert published._next_name() == "r10001"
    (tmp_path / "last").write_text("damaged")
    assert published._next_name() == "r10001"


def test_a_full_disk_is_said_and_leaves_no_half_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_app(tmp_path) as service:

        def full(*_: object, **__: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("pyarrow.csv.write_csv", full)
        reply = publish(service)
        assert reply.status_code == 503
        assert reply.json()["type"] == "urn:reticent:problem:storage"
        monkeypatch.undo()
        assert listed(service) == []
        folder = Path(f"{service.settings.tables[0].ledger}.releases")
        assert [path.name for path in folder.iterdir()] == ["last"]
        assert publish(service).json()["id"] == "r0002"
        tokens = service.tokens._file
        pages = tokens.execute("PRAGMA page_count").fetchone()[0]
        tokens.execute(f"PRAGMA max_page_count = {pages}")
        refused = None
        for number in range(200):
            made = service.client.post("/v1/tokens", json={"name": f"t{number}"}, headers=service.custodian)
            if made.status_code != 201:
                refused = made
                break
        assert refused is not None, "the file never filled up: this shows nothing"
        assert (refused.status_code, refused.json()["type"]) == (503, "urn:reticent:problem:storage")
        assert service.client.get("/v1/me", headers=service.alice).status_code == 200
