"""The journal restores a session's knowledge from its ledger: from public events only; no row is read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from reticent.domain import Domain
from reticent.errors import KeyBusyError, KeyForfeitedError, KeyReusedError, LedgerError, ReticentError
from reticent.hypotheses import load
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.curator import NAMED, Noise, Settled, counted_statistic, released
from reticent.kernel.ledger.columns import Reservation
from reticent.kernel.ledger.events import sha256
from reticent.kernel.ledger.ledger import Event, Ledger
from reticent.kernel.mechanisms.base import restore
from reticent.knowledge.certificates import Certificate
from reticent.knowledge.knowledge import Knowledge
from reticent.knowledge.publications import PublishedBudget, behind, elsewhere
from reticent.knowledge.tails import Shares
from reticent.knowledge.typical import TypicalError
from reticent.queries.base import Linear
from reticent.queries.distribution import Questions
from reticent.queries.from_dict import linear_from_dict, query_from_dict
from reticent.queries.groups import Groups
from reticent.queries.linear import Marginal, Residual
from reticent.releases.release import PUBLISHED, Release
from reticent.sessions.purchase_index import Learned, Segment, joined_segments

ASK = "ask:"
"""Keys of analysts' purchases."""
SUM = "sum:"
"""Keys of means of the rows' own numbers."""
NUMBERS = ":numbers"
"""Marks the record of the noise of such a key."""
AUDIT = "session:audit:"
"""Keys of audits of classes and of batches, which all share one failure probability."""
OWN_AUDIT = "session:own audit:"
"""Keys of audits that losses requested for themselves, with their attempt: each loss has its own failure
probability."""
TYPICAL = "session:typical:"
"""Keys of typical errors, which share another failure probability."""
LEAST_INDEXED = 512
"""The least number of purchases in a segment of the index; so many are read again in a second or two."""
STATE = b"working hypothesis\n"
"""A prefix of the bytes of a hypothesis that an index keeps until the next, so that they differ from a stored
snapshot."""
LEAST_CLOSED = 64
"""The least number of new purchases for which closing a session adds a segment."""
LONGEST_KEY = 57
"""Of a key that a message shows whole."""
KEY_REFUSALS = (KeyBusyError, KeyForfeitedError, KeyReusedError)
_IN_LEDGER = re.compile(f'^key "(?:{ASK}|{SUM})')


def as_given(refusal: LedgerError) -> LedgerError:
    """The same refusal of a key, which it names as the user gave it, without the prefix that it has in the ledger."""
    return type(refusal)(_IN_LEDGER.sub('key "', str(refusal)))


def reused(key: str) -> KeyReusedError:
    """The refusal of a key that belongs to another question."""
    named = key if len(key) <= LONGEST_KEY else key[:LONGEST_KEY] + "..."
    return KeyReusedError(f'key "{named}" belongs to another request: use a new key')


@dataclass(frozen=True, eq=False)
class Bought:
    """A settled purchase of an earlier run of this session."""

    key: str
    analyst: str | None
    queries: tuple[Linear | Marginal | Groups, ...]
    noises: tuple[Noise, ...]
    sequence: int


@dataclass(frozen=True, eq=False)
class Stored:
    """A snapshot with the position of its event; the last `unfitted` purchases before it have not been fitted."""

    snapshot: Snapshot
    records: float
    records_error: float
    unfitted: int
    sequence: int


class Journal:
    """Reads and writes a session's free public events."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._asked: dict[str, dict[str, Any]] = {}
        self._targets_read = 0
        self._segments: dict[str, Segment] = {}

    def settings(self) -> dict[str, Any] | None:
        """The terms of the session's first opening; None for a new session. A warm start that failed twice recorded
        them again.
        """
        event = self._last("session")
        return None if event is None else event.payload

    @property
    def shares(self) -> Shares:
        """The division of the failure probability among this session's statements, fixed at the first opening."""
        settings = self.settings() or {}
        joint = bool(settings.get("joint", False))
        possible = joint or bool(settings.get("possible", False))
        in_records = bool(settings.get("in_records", False))
        return Shares(joint=joint, plain=int(settings.get("plain", 0)), possible=possible, in_records=in_records)

    def save_settings(self, settings: dict[str, Any]) -> None:
        self._append("session", settings)

    def forfeited(self, prefix: str) -> bool:
        """Whether a charge under such a key was forfeited: two crashes before its result was recorded."""
        return any(map(self._lost, self.ledger.keys(prefix)))

    def usable(self, key: str) -> str:
        """This key, or the first of its successors that is not forfeited."""
        return self.ledger.successor(key)[0]

    def _lost(self, key: str) -> bool:
        found = self.ledger.lookup(key)
        return isinstance(found, Reservation) and found.status == "forfeited"

    def save_snapshot(self, knowledge: Knowledge) -> None:
        """Store a snapshot once: a refit need not be bit-identical on another processor, and certificates refer to
        exact bytes.
        """
        snapshot, last = knowledge.current, self._last("snapshot")
        if last is None or last.payload["digest"] != snapshot.digest:
            payload = {
                "digest": snapshot.digest,
                "records": knowledge.records,
                "records_error": knowledge.records_error,
                "unfitted": knowledge.unfitted,
            }
            self._append("snapshot", payload, blobs=[snapshot.to_bytes()])

    def latest(self) -> Stored | None:
        """The newest readable snapshot; None if there is none, as in a new ledger.

        A damaged snapshot loses no measurement: the preceding hypothesis learns again from later purchases.
        """
        for sequence in reversed(self.ledger.noted("snapshot")):
            payload = self.ledger.event(sequence).payload
            snapshot = self.snapshot_if_whole(payload["digest"])
            if snapshot is not None:
                unfitted = payload.get("unfitted", 0)
                return Stored(snapshot, payload["records"], payload["records_error"], unfitted, sequence)
        return None

    def snapshot_if_whole(self, digest: str) -> Snapshot | None:
        """The snapshot; None if its bytes are missing or damaged."""
        try:
            return self.snapshot(digest)
        except (LedgerError, ReticentError, ValueError):
            return None

    def save_learned(self, knowledge: Knowledge, *, closing: bool = False) -> Learned | None:
        """Record the knowledge and the index of purchases if there are enough new ones; called while nothing is being
        bought.
        """
        last = self._last("knowledge")
        since = 0 if last is None else last.sequence
        new = len(self.ledger.settlement_places("measure", ASK, since))
        if new < (LEAST_CLOSED if closing and last is not None else LEAST_INDEXED):
            return None
        before = self.learned()
        covered = 0 if before is None else before.targets
        asked = [(place, self.ledger.event(place).payload["asked"]) for place in self.ledger.noted("targets", covered)]
        fresh = Segment.fresh(knowledge, [(place, sha256(digest.encode())) for place, digest in asked])
        former = last is not None and "index" in last.payload  # kept in another form: taken in whole
        kept, fresh = joined_segments({} if before is None else before.segments, fresh, whole=former)
        data, state = fresh.to_bytes(), STATE + knowledge.current.to_bytes()
        ours = set(self.ledger.settlement_places("measure", ASK).tolist())
        payload = {
            "segments": [*kept, sha256(data)],
            "shapes": sorted([list(names), sorted(map(list, of))] for names, of in knowledge.groups.shapes.items()),
            "groups": len(knowledge.groups),
            "others": [place for place in dict.fromkeys(m.ledger_id for m in knowledge.marginals) if place in ours],
            "state": sha256(state),
            "unfitted": knowledge.unfitted,
        }
        named = set() if last is None else set(knowledge_blobs(last.payload))
        discarded = named.difference(knowledge_blobs(payload))
        self._segments = kept | {sha256(data): fresh}
        event = self.ledger.append("knowledge", payload, blobs=[data, state], discard=sorted(discarded))
        self._asked = {}
        return self._learned(event, knowledge.current)

    def learned(self) -> Learned | None:
        """The newest index, if it and its snapshot are readable; without it all purchases are read again."""
        event = self._last("knowledge")
        if event is None:
            return None
        try:
            if "index" in event.payload:
                return self._learned_before(event)
            state = self.ledger.get_blob(event.payload["state"]).removeprefix(STATE)
            self._segments = {name: self._segment(name) for name in event.payload["segments"]}
            return self._learned(event, Snapshot(load(state)))
        except (LedgerError, ReticentError, ValueError, KeyError, TypeError):
            return None

    def _segment(self, name: str) -> Segment:
        found = self._segments.get(name)
        return Segment.from_bytes(self.ledger.get_blob(name)) if found is None else found

    def _learned(self, event: Event, current: Snapshot) -> Learned:
        told, self._targets_read = event.payload, max(self._targets_read, event.sequence)
        shapes = {tuple(attributes): tuple(map(tuple, names)) for attributes, names in told["shapes"]}
        facts = (tuple(told["others"]), told["groups"], current, told["unfitted"], event.sequence, event.sequence)
        return Learned(self._segments, shapes, *facts)

    def _learned_before(self, event: Event) -> Learned | None:
        """An index of earlier versions, which holds counts only; groups are read with the other purchases."""
        told, snapshot = event.payload, self.snapshot_if_whole(event.payload["snapshot"])
        if snapshot is None:
            return None
        self._segments = {told["index"]: Segment.of_former(self.ledger.get_blob(told["index"]))}
        facts = (tuple(told["others"]), 0, snapshot, told["unfitted"], event.sequence, 0)
        return Learned(self._segments, {}, *facts)

    def snapshot(self, digest: str) -> Snapshot:
        return Snapshot(load(self.ledger.get_blob(digest)))

    def unfinished(self, kind: str, order: int, units: int) -> tuple[str, Snapshot] | None:
        """An audit of a class that was charged but has no certificate yet: its key and its snapshot."""
        certified = {event.payload["ledger_id"] for event in self._events("certificate")}
        stored = {event.payload["digest"][:NAMED]: event.payload["digest"] for event in self._events("snapshot")}
        for key in self.ledger.keys(f"{AUDIT}{kind}:{order}:", "measure"):
            named, paid = key.removeprefix(f"{AUDIT}{kind}:{order}:").split(":")[:2]
            found = self.ledger.lookup(key)
            done = self._lost(key) or (isinstance(found, Event) and found.sequence in certified)
            if not done and int(paid) == units and named in stored:
                return key, self.snapshot(stored[named])
        return None

    def save_certificate(self, certificate: Certificate) -> None:
        if certificate not in self.certificates():
            self._append("certificate", certificate.to_dict())

    def certificates(self) -> list[Certificate]:
        return [Certificate.from_dict(event.payload) for event in self._events("certificate")]

    def save_questions(self, key: str, questions: Questions) -> None:
        """Record the list of questions of a typical error, with its random bytes, before it is paid for."""
        self._append("questions", {"key": key, "questions": questions.to_dict()})

    def questions(self, key: str, domain: Domain) -> Questions | None:
        found = self._about("questions", key)
        return None if found is None else Questions.from_dict(domain, found["questions"])

    def typical_begun(self) -> int | None:
        """The number of attributes of the first typical error that was charged, settled or not."""
        return next((int(key.removeprefix(TYPICAL).split(":")[0]) for key in self.ledger.keys(TYPICAL)), None)

    def typical_index(self, key: str) -> int:
        """The index of a key among the typical errors of this ledger."""
        keys = self.ledger.keys(TYPICAL)
        before = keys.index(key) if key in keys else len(keys)
        return 1 + before + max((event.payload.get("typical", 0) for event in self._events("start")), default=0)

    def save_typical(self, error: TypicalError) -> None:
        if error not in self.typical():
            self._append("typical", error.to_dict())

    def typical(self) -> list[TypicalError]:
        return [TypicalError.from_dict(event.payload) for event in self._events("typical")]

    def save_batch(self, certificate: Certificate, digests: list[str]) -> None:
        self._append("batch", {"certificate": certificate.to_dict(), "forms": digests})

    def batches(self) -> Iterator[tuple[Certificate, tuple[str, ...]]]:
        """Batches that passed their audit: the certificate, and the digests of their compiled forms."""
        for event in self._events("batch"):
            yield Certificate.from_dict(event.payload["certificate"]), tuple(event.payload["forms"])

    def has_batch(self, ledger_id: int | None) -> bool:
        """Whether the audit at this position in the ledger is known to have passed."""
        return any(event.payload["certificate"]["ledger_id"] == ledger_id for event in self._events("batch"))

    def save_declared(
        self, declared: str, places: Sequence[int], audit: str, snapshot: str, noise: dict[str, str]
    ) -> None:
        """Record the audit that a declared batch is about to pay for: its questions and its snapshot."""
        told = {"key": declared, "places": list(places), "audit": audit, "snapshot": snapshot, "noise": noise}
        self._append("declared", told)

    def declared(self, declared: str) -> dict[str, Any] | None:
        return self._about("declared", declared)

    def audit_index(self, key: str) -> int:
        """The index of a key among the audits of this ledger, passed or not; it determines the share of the failure
        probability.
        """
        keys = self.ledger.keys(AUDIT)
        before = keys.index(key) if key in keys else len(keys)
        return 1 + before + max((event.payload["audits"] for event in self._events("start")), default=0)

    @staticmethod
    def attempt(key: str) -> int:
        """The number of an audit among those of its own losses, from 1; 0 for an audit that shares with all others."""
        return int(key.removeprefix(OWN_AUDIT).split(":")[0]) if key.startswith(OWN_AUDIT) else 0

    def save_start(self, release: Release) -> None:
        """Store a release from which a session starts completely, so that its file is not needed again."""
        data = release.to_bytes()
        audits = max((certificate.index for certificate in release.certificates), default=0)
        told = {"release": sha256(data), "audits": audits}
        if release.typical:
            told["typical"] = max(error.index for error in release.typical)
        self._append("start", told, blobs=[data])

    def start(self) -> Release | None:
        event = next(self._events("start"), None)
        if event is None:
            return None
        return self._release(event)

    def newest_release(self) -> Release | None:
        """The last release published on this ledger."""
        event = self._last(PUBLISHED)
        return None if event is None else self._release(event)

    def _release(self, event: Event) -> Release:
        return Release.from_bytes(self.ledger.get_blob(event.payload["release"]))

    @cached_property
    def elsewhere(self) -> tuple[PublishedBudget, ...]:
        """Publications behind the session's start that this ledger has not paid for."""
        start = self.start()
        return () if start is None else elsewhere(behind(start.facts), self.ledger.name)

    def save_targets(self, key: str, asked: str, errors: list[float]) -> None:
        """Record the requested errors of the parts of a keyed question; `asked` is its digest."""
        self._append("targets", {"key": key, "asked": asked, "errors": errors})

    def targets(self, key: str, asked: str) -> list[float] | None:
        """The recorded errors of a question's parts; refused if the key belongs to another question.

        The same question under another key uses the same errors, so that earlier purchases for it serve again.
        """
        found = self._about("targets", key)
        if found is not None and found["asked"] != asked:
            raise reused(key.removesuffix(NUMBERS))
        found = found or self._wanted_before(asked)
        return None if found is None else found["errors"]

    def has_targets(self, key: str) -> bool:
        """Whether errors were recorded under this very key."""
        return self._about("targets", key) is not None

    def _wanted_before(self, asked: str) -> dict[str, Any] | None:
        """The errors last requested for the parts of this question, under any key."""
        for place in self.ledger.noted("targets", self._targets_read):
            told = self.ledger.event(place).payload
            self._asked[told["asked"]] = told
            self._targets_read = place
        if asked in self._asked:
            return self._asked[asked]
        name = sha256(asked.encode())
        places = sorted(place for segment in self._segments.values() for place in segment.targets.find(name))
        for told in (self.ledger.event(place).payload for place in reversed(places)):
            if told["asked"] == asked:
                return told
        return None

    def save_investment(self, key: str, units: int, question: str) -> None:
        """Record an investment under a key before it is paid, and the question for which it is made."""
        self._append("investment", {"key": key, "units": units, "question": question})

    def invested(self, key: str) -> bool:
        return self.ledger.named("investment", key) is not None

    def investments(self) -> tuple[int, set[str]]:
        """All investments, and the questions for which they were made."""
        told = [event.payload for event in self._events("investment")]
        return sum(one["units"] for one in told), {one["question"] for one in told if one["question"]}

    def save_savings(self, units: int, questions: list[str]) -> None:
        """Record the savings of free answers so far, and the questions counted since the last record."""
        self._append("savings", {"units": units, "questions": questions})

    def savings(self) -> tuple[int, set[str]]:
        units, counted = 0, set()
        for event in self._events("savings"):
            units = event.payload["units"]
            counted.update(event.payload["questions"])
        return units, counted

    def save_prediction(self, told: dict[str, Any]) -> None:
        """Record the predicted certificates of the warm start before its audits are paid for."""
        self._append("prediction", told)

    def prediction(self) -> dict[str, Any] | None:
        event = self._last("prediction")
        return None if event is None else event.payload

    def save_guesses(
        self,
        key: str,
        wanted: list[float],
        models: list[dict[str, Any]],
        audit: str | None,
        audited: str | None,
        learned: Sequence[str] = (),
    ) -> None:
        """Record the models with which a request begins, the audit it is about to pay for, and the audit whose result
        covers them.

        The latter may be an earlier request's audit. A request without a key is identified by its audit's key.
        `learned` are the keys of measurements made for it before.
        """
        told: dict[str, Any] = {"key": key, "wanted": wanted, "models": models, "audit": audit, "audited": audited}
        self._append("guesses", told | ({"learned": list(learned)} if learned else {}))

    def guesses(self, key: str) -> dict[str, Any] | None:
        return self._about("guesses", key)

    def audited_models(self) -> Iterator[tuple[str, dict[str, dict[str, Any]]]]:
        """Keys of audits of losses, paid or about to be, with their models by the losses' digests."""
        for event in self._events("guesses"):
            told = event.payload
            if (key := told.get("audited") or told.get("audit")) is not None:
                yield key, {model["loss"]: model for model in told["models"]}

    def save_passed(self, told: dict[str, Any]) -> None:
        """Record the result of a test that a key paid for, or that a key has paid and its answer missed the requested
        error.
        """
        self._append("passed", told)

    def passed(self, key: str) -> dict[str, Any] | None:
        return self._about("passed", key)

    def save_told(self, key: str, asked: str, content: dict[str, Any]) -> None:
        """Record the answer of a key, or of a question without one, that its parts alone do not give again."""
        data = json.dumps(content).encode()
        self._append("passed", {"key": key, "asked": asked, "answer": sha256(data)}, blobs=[data])

    def told(self, passed: dict[str, Any]) -> dict[str, Any] | None:
        """The answer recorded by `save_told`; None if an earlier version recorded only that the key has ended."""
        return json.loads(self.ledger.get_blob(passed["answer"])) if "answer" in passed else None

    def told_of(self, key: str) -> dict[str, Any] | None:
        """The answer recorded under a key, if there is one."""
        passed = self.passed(key)
        return None if passed is None else self.told(passed)

    def save_tests(self, count: int) -> None:
        """Record the number of threshold tests that may have been made by the end of this process."""
        self._append("tests", {"count": count})

    def epochs(self) -> int:
        """Threshold epochs opened so far; each was charged completely, and none survives its process."""
        return len(self.ledger.reservations("watch"))

    def tests(self) -> int:
        event = self._last("tests")  # they only grow
        return 0 if event is None else event.payload["count"]

    def published(self) -> list[Bought]:
        """Marginals and residuals that releases on this ledger measured on the whole table, in order of payment.

        None if the session started from a release, possibly the same one, so that nothing is learned twice.
        """
        if self.ledger.noted("start"):
            return []
        runs = [event.payload["run"] for event in self._events("release") if event.payload.get("sample", 0) is None]
        found = [bought for run in runs for bought in self.bought(f"{run}:")]
        return [bought for bought in found if all(isinstance(query, (Marginal, Residual)) for query in bought.queries)]

    def bought(self, prefix: str, after: int = 0) -> Iterator[Bought]:
        """Measurements under keys that start with `prefix`, settled after an event, in order of payment."""
        for reservation in self.ledger.settlements("measure", prefix, after):
            found = self.purchase(reservation)
            if found is not None:
                yield found

    def purchase(self, reservation: Reservation) -> Bought | None:
        """The purchase of a settled key; None for audits, which have no query."""
        request = self.ledger.event(reservation.sequence).payload["request"]
        queries = tuple(_question(described) for described in request["statistics"])
        if any(query is None for query in queries):
            return None
        noises = tuple(restore(described) for described in request["mechanisms"])
        return Bought(reservation.key, reservation.analyst, queries, noises, reservation.settled)  # pyright: ignore[reportArgumentType]

    def sums(self) -> Iterator[tuple[dict[str, Any], tuple[Noise, ...], Event]]:
        """Purchased means of numbers: the groups whose column is summed, the noises, and the settlement."""
        for reservation in self.ledger.settlements("measure", SUM):
            request = self.ledger.event(reservation.sequence).payload["request"]
            noises = tuple(restore(described) for described in request["mechanisms"])
            yield request["statistics"][0]["clipped sums"], noises, self.ledger.event(reservation.settled)  # pyright: ignore[reportReturnType]

    def released(self, bought: Bought, domain: Domain) -> Settled:
        """The values released by a purchase, in records."""
        statistics = [counted_statistic(query, domain) for query in bought.queries]
        return released(self.ledger.event(bought.sequence), statistics, bought.noises, self.grid)

    @property
    def grid(self) -> int:
        """The weight of one person or record: a public fact of the table."""
        return self.ledger.identity["grid"]

    def purchase_at(self, sequence: int) -> Bought | None:
        """The purchase that this event settled."""
        reservation = self.ledger.reservation(str(self.ledger.event(sequence).key))
        return None if reservation is None else self.purchase(reservation)

    def _events(self, kind: str) -> Iterator[Event]:
        return map(self.ledger.event, self.ledger.noted(kind))

    def _last(self, kind: str) -> Event | None:
        newest = self.ledger.newest(kind)
        return None if newest is None else self.ledger.event(newest)

    def _about(self, kind: str, key: str) -> dict[str, Any] | None:
        sequence = self.ledger.named(kind, key)
        return None if sequence is None else self.ledger.event(sequence).payload

    def _append(self, kind: str, payload: dict[str, Any], blobs: Sequence[bytes] = ()) -> None:
        self.ledger.append(kind, payload, blobs=blobs)


def knowledge_blobs(payload: dict[str, Any]) -> list[str]:
    """Blobs that a `knowledge` event names and a later one may replace."""
    return [payload["index"]] if "index" in payload else [*payload["segments"], payload["state"]]


def _question(described: dict) -> Linear | Marginal | Groups | Residual | None:
    """The query behind a measured statistic; None for audits, which have no query."""
    if "residual" in described:
        return Residual(described["residual"]["marginal"])
    if "marginal" in described:
        return Marginal(described["marginal"])
    if "groups" in described:
        query = query_from_dict(described["groups"])
        return query if isinstance(query, Groups) else None
    return linear_from_dict(described["query"]) if "query" in described else None
