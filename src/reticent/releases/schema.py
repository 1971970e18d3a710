"""Checks the whole content of a saved release when it is read, and sizes before anything is allocated."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Mapping
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np

from reticent.domain import Domain
from reticent.errors import ReticentError, one_line
from reticent.hypotheses import load as load_hypothesis
from reticent.hypotheses.base import Hypothesis, Measurement
from reticent.hypotheses.replicates import RECORDS, Replicates
from reticent.hypotheses.support import SupportHypothesis
from reticent.kernel.accounting import Budget
from reticent.kernel.mechanisms.base import Gaussian, Laplace, restore
from reticent.kernel.statistics import KINDS
from reticent.knowledge.certificates import LAST_INDEX, Certificate
from reticent.knowledge.guarantees import Guarantee
from reticent.knowledge.paid_models import LossCertificate
from reticent.knowledge.publications import behind
from reticent.knowledge.tails import reach
from reticent.knowledge.typical import TypicalError
from reticent.queries.base import Linear
from reticent.queries.distribution import Questions
from reticent.queries.from_dict import query_from_dict
from reticent.queries.linear import Marginal, Residual
from reticent.queries.workload import Workload
from reticent.releases.candidates import target_sets

FORMAT = 1
MANIFEST, HYPOTHESIS = "manifest.json", "hypothesis.bin"
LARGEST_MANIFEST = 2**26
LARGEST_CONTENT = 2**30
"""Largest size of all parts unpacked, in bytes: eight arrays of 2^24 floats, the largest hypothesis."""
LONGEST_TEXT = 10_000
MOST_SETS = 10**6
MOST_RECORDS = 2.0**63
"""Largest number of records of a table, and thus of the error of its estimate; more would overflow in products."""
UNBELIEVABLE = 1e-12
"""A negative reading of a non-negative quantity is refused if noise explains it with less than this probability."""
_FACTS = {"name": str, "neighbours": str, "unit": str, "budget": dict, "spent": int, "workload": dict}
_STATED = ("neighbours", "budget", "spent")
"""Facts of a release that states its privacy."""


class Content(NamedTuple):
    """What a release file holds."""

    hypothesis: Hypothesis
    measurements: tuple[Measurement, ...]
    certificates: tuple[Certificate, ...]
    records: float
    notes: dict[str, Any]
    facts: dict[str, Any]
    guarantees: tuple[Guarantee, ...] = ()
    losses: tuple[LossCertificate, ...] = ()
    replicates: Replicates | None = None
    typical: tuple[TypicalError, ...] = ()


class Malformed(ValueError):
    """The defect of the content, in a few words that quote nothing of it."""


def read_release(packed: bytes, path: str) -> Content:
    """The whole content, or one refusal in one line."""
    try:
        with zipfile.ZipFile(BytesIO(packed)) as archive:
            return _content(archive, path)
    except Malformed as problem:
        raise ReticentError(f"{path}: not a saved release ({problem})") from None
    except MemoryError:
        raise ReticentError(f"{path}: not enough memory to read this release") from None
    except ReticentError as problem:
        if str(problem).startswith(path):
            raise
        raise ReticentError(f"{path}: not a saved release ({one_line(str(problem), 200)})") from None
    except Exception as problem:
        # Damaged archives raise whatever the unpacker trips over; there is nothing else to say about them.
        raise ReticentError(f"{path}: not a saved release ({type(problem).__name__})") from None


def _content(archive: zipfile.ZipFile, path: str) -> Content:
    sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
    if sum(sizes.values()) > LARGEST_CONTENT or sizes.get(MANIFEST, 0) > LARGEST_MANIFEST:
        raise Malformed(f"its parts unpack to more than {LARGEST_CONTENT >> 20} MiB")
    manifest = json.loads(archive.read(MANIFEST))
    _require(isinstance(manifest, dict) and "format" in manifest, "no format")
    if manifest["format"] != FORMAT:
        text = str(manifest["format"])[:20] if isinstance(manifest["format"], (int, str)) else "unknown"
        raise ReticentError(f"{path}: release format {text}, this version reads {FORMAT}")
    for name, kind in (("certificates", list), ("measurements", list), ("notes", dict), ("facts", dict)):
        _require(isinstance(manifest.get(name), kind), f"{name} missing")
    _require(isinstance(manifest.get("domain"), dict), "domain missing")
    domain = Domain.from_dict(manifest["domain"])
    records = _number(manifest.get("records"), "records", least=1.0, most=MOST_RECORDS)
    notes = manifest["notes"]
    _number(notes.get("records_error", 0.0), "records_error", least=0.0, most=MOST_RECORDS)
    facts = _checked_facts(manifest["facts"], domain)
    certificates = tuple(_certificate(entry, domain) for entry in manifest["certificates"])
    measurements = tuple(
        _measurement(archive, sizes, place, entry, domain) for place, entry in enumerate(manifest["measurements"])
    )
    hypothesis = load_hypothesis(archive.read(HYPOTHESIS))
    _require(hypothesis.domain.fingerprint == domain.fingerprint, "hypothesis of another domain")
    _require_distribution(hypothesis)
    guarantees = tuple(
        _guarantee(entry, facts["workload"], domain) for entry in _listed(manifest.get("guarantees", []), "guarantees")
    )
    losses = tuple(_loss_certificate(entry, domain) for entry in _listed(manifest.get("losses", []), "losses"))
    replicates = _replicates(archive, manifest.get("replicates"), hypothesis)
    typical = tuple(_typical(entry, domain) for entry in _listed(manifest.get("typical", []), "typical errors"))
    bounds = (guarantees, losses, replicates, typical)
    certified = any((certificates, guarantees, losses, typical))
    _require(facts["budget"] is not None or not certified, "certified errors without a statement of privacy")
    return Content(hypothesis, measurements, certificates, records, notes, facts, *bounds)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise Malformed(what)


def _number(value: Any, name: str, *, least: float = -math.inf, most: float = math.inf) -> float:
    _require(isinstance(value, (int, float)) and not isinstance(value, bool), f"{name} is no number")
    number = float(value)
    _require(math.isfinite(number) and least <= number <= most, f"{name} out of range")
    return number


def _texts(values: Any, name: str) -> tuple[str, ...]:
    _require(isinstance(values, list) and all(isinstance(value, str) for value in values), f"{name} are no names")
    return tuple(values)


def _checked_facts(facts: dict[str, Any], domain: Domain) -> dict[str, Any]:
    stated = "budget" not in facts or facts["budget"] is not None
    for name, kind in _FACTS.items():
        _require(
            (not stated and name in _STATED) or (isinstance(facts.get(name), kind) and facts[name] is not True),
            f"{name} missing",
        )
    _require(all(len(v) <= LONGEST_TEXT for v in facts.values() if isinstance(v, str)), "a text is too long")
    if stated:
        _check_statement(facts)
    _require(facts["unit"] in ("record", "person", "row"), "unit unknown")
    algorithm = facts.get("algorithm", {})
    _require(isinstance(algorithm, dict), "algorithm damaged")
    if "conjunctions" not in facts["workload"]:
        target_sets(Workload.from_dict(facts["workload"]).on(domain), domain)
    return facts


def _check_statement(facts: dict[str, Any]) -> None:
    """Check the privacy statement of a release; one fitted to measurements made elsewhere has none."""
    _require(facts["neighbours"] in ("replace-one", "add-remove"), "neighbours unknown")
    budget = Budget.from_dict(facts["budget"])
    _require(facts["spent"] >= 0, "spent out of range")
    for publication in behind(facts):
        _require(isinstance(publication.ledger, str) and publication.spent >= 0, "publications damaged")
    if not budget.pure:
        _require_guarantee(facts.get("privacy"))


def _require_guarantee(privacy: Any) -> None:
    """Check epsilon at several deltas, as reports show it."""
    _require(isinstance(privacy, dict) and isinstance(privacy.get("epsilon"), dict), "privacy missing")
    for delta, epsilon in privacy["epsilon"].items():
        _number(float(delta), "delta", least=0.0, most=1.0)
        _number(epsilon, "epsilon", least=0.0)


def _certificate(entry: Any, domain: Domain) -> Certificate:
    _require(isinstance(entry, dict) and isinstance(entry.get("sets"), list), "a certificate is damaged")
    _require(entry.get("kind") in KINDS, "a certificate of an unknown kind")
    _require(0 < len(entry["sets"]) <= MOST_SETS, "a certificate without attribute sets")
    for names in entry["sets"]:
        listed = _texts(names, "attributes of a certificate")
        _require(bool(listed) and domain.canonical(listed) == tuple(listed), "attributes of a certificate")
    _check_reading(entry)
    certificate = Certificate.from_dict(entry)
    _require(not math.isnan(certificate.bound), "a certificate without a bound")
    return certificate


def _typical(entry: Any, domain: Domain) -> TypicalError:
    _require(isinstance(entry, dict) and isinstance(entry.get("distribution"), dict), "a typical error is damaged")
    share = _number(entry.get("share"), "share of a typical error", least=0.0, most=1.0)
    _require(0 < share < 1, "share of a typical error out of range")
    Questions.from_dict(domain, entry["distribution"])
    _require(len(entry["distribution"]["sets"]) <= MOST_SETS, "a typical error of too many attribute sets")
    _check_reading(entry)
    error = TypicalError.from_dict(entry)
    _require(not math.isnan(error.bound), "a typical error without a bound")
    return error


def _check_reading(entry: dict[str, Any]) -> None:
    """Check the common part of certificates and typical errors: a released reading of a snapshot, and its noise."""
    _require(isinstance(entry.get("snapshot"), str), "a certificate of no snapshot")
    _require(isinstance(entry.get("noise"), dict), "a certificate without noise")
    noise = restore(entry["noise"])
    _require(isinstance(noise, (Gaussian, Laplace)), "a certificate without noise")
    records = _number(entry.get("records"), "records of a certificate", least=1.0, most=MOST_RECORDS)
    index = entry.get("index")
    _require(isinstance(index, int) and not isinstance(index, bool) and 1 <= index <= LAST_INDEX, "index out of range")
    lowest = -reach(noise, UNBELIEVABLE) / records  # pyright: ignore[reportArgumentType]
    _number(entry.get("reading"), "reading of a certificate", least=lowest)
    _number(entry.get("slack"), "slack of a certificate", least=0.0)
    _number(entry.get("records_error"), "records_error of a certificate", least=0.0, most=MOST_RECORDS)
    confidence = _number(entry.get("confidence"), "confidence", least=0.0, most=1.0)
    _require(0 < confidence < 1, "confidence out of range")
    _require(isinstance(entry.get("ledger_id"), int | None), "ledger_id is no number")


def _guarantee(entry: Any, workload: Mapping[str, Any], domain: Domain) -> Guarantee:
    _require(isinstance(entry, dict), "a guarantee is damaged")
    for name in ("theorem", "snapshot"):
        _require(isinstance(entry.get(name), str) and len(entry[name]) <= LONGEST_TEXT, f"{name} is no text")
    _number(entry.get("error"), "error of a guarantee", least=0.0, most=1.0)
    confidence = _number(entry.get("confidence"), "confidence", least=0.0, most=1.0)
    _require(0 < confidence < 1, "confidence out of range")
    _require(isinstance(entry.get("weighted"), bool), "weighted is no truth value")
    _require(entry.get("singles") in (None, True), "singles is no truth value")
    reading = entry.get("reading")
    if reading is not None:
        names = {"value", "noise", "slack", "records", "records_error"}
        _require(isinstance(reading, dict) and set(reading) == names, "a reading is damaged")
        _require(isinstance(reading["noise"], dict), "a reading without noise")
        _require(isinstance(restore(reading["noise"]), (Gaussian, Laplace)), "a reading without noise")
        for name, least in (("value", -math.inf), ("slack", 0.0), ("records", 1.0), ("records_error", 0.0)):
            _number(reading[name], f"{name} of a reading", least=least)
    measured = entry.get("measured", [])
    _require(isinstance(measured, list), "measured queries are no list")
    queries = len(Workload.from_dict(workload).on(domain).queries) if measured else 0
    for one in measured:
        _check_measured(one, queries)
    packed = entry.get("conjunctions")
    if packed is None:
        _require("conjunctions" not in workload, "a guarantee without its queries")
        return Guarantee.from_dict(entry, workload, domain)
    shape = packed.get("shape") if isinstance(packed, dict) else None
    if not (isinstance(shape, list) and len(shape) == 2 and all(type(size) is int and size > 0 for size in shape)):
        raise Malformed("a guarantee's list is damaged")
    _require(8 * shape[0] * shape[1] <= LARGEST_CONTENT, "a guarantee's list is too long")
    return Guarantee.from_dict(entry, workload, domain)


def _check_measured(entry: Any, queries: int) -> None:
    """Check a query that bounds its own error, one of so many of a workload: its place, share and reading."""
    _require(isinstance(entry, dict) and set(entry) == {"place", "share", "reading"}, "a measured query is damaged")
    place, reading = entry["place"], entry["reading"]
    _require(type(place) is int and 0 <= place < queries, "a measured query of no workload")
    _number(entry["share"], "share of a measured query", least=0.0, most=1.0 + 1e-6)
    names = {"held", "cells", "rest", "others", "noise", "records", "exact"}
    _require(isinstance(reading, dict) and set(reading) == names, "a reading is damaged")
    _require(isinstance(reading["noise"], dict), "a reading without noise")
    _require(isinstance(restore(reading["noise"]), (Gaussian, Laplace)), "a reading without noise")
    _number(reading["held"], "records of a reading")
    for name in ("cells", "others"):
        _require(type(reading[name]) is int and 1 <= reading[name] <= LARGEST_CONTENT, f"{name} of a reading")
    _require(isinstance(reading["exact"], bool), "exact is no truth value")
    _require(reading["records"] is not None or reading["rest"] is not None, "a reading without a number of records")
    for name, least in (("rest", -math.inf), ("records", 1.0)):
        if reading[name] is not None:
            _number(reading[name], f"{name} of a reading", least=least)


def _listed(entries: Any, name: str) -> list[Any]:
    _require(isinstance(entries, list), f"{name} are no list")
    return entries


def _loss_certificate(entry: Any, domain: Domain) -> LossCertificate:
    """The certificate of declared losses; a reading that no noise explains is damaged."""
    _require(isinstance(entry, dict) and isinstance(entry.get("noise"), dict), "a certificate of losses is damaged")
    try:
        certificate = LossCertificate.from_dict(entry, domain)
    except (KeyError, TypeError, ValueError):
        raise Malformed("a certificate of losses is damaged") from None
    reading = certificate.reading
    _require(isinstance(reading.noise, (Gaussian, Laplace)), "a certificate of losses without noise")
    _require(0 <= reading.index <= LAST_INDEX and 0 <= reading.hidden <= 1, "a certificate of losses out of range")
    scales = [loss.on(domain).scale for loss in certificate.losses]
    _require(0 < reading.scale <= 2 * max(scales), "a certificate of losses in another unit")
    _require(
        reading.value >= -reach(reading.noise, UNBELIEVABLE) and math.isfinite(reading.value), "an unlikely reading"
    )
    return certificate


def _measured_query(described: Any) -> Linear | Marginal | Residual:
    """A measured query. Residuals are measured but are not queries for analysts."""
    if isinstance(described, dict) and described.get("query") == "residual":
        _require(set(described) == {"query", "attributes"}, "a residual is damaged")
        return Residual(_texts(described["attributes"], "attributes of a residual"))
    query = query_from_dict(described)
    if not isinstance(query, (Linear, Marginal)):
        raise Malformed("only linear queries, marginals and residuals are measured")
    return query


def _measurement(
    archive: zipfile.ZipFile, sizes: Mapping[str, int], place: int, entry: Any, domain: Domain
) -> Measurement:
    _require(isinstance(entry, dict), "a measurement is damaged")
    query = _measured_query(entry.get("query"))
    shape = domain.shape_of(query.canonical(domain)) if isinstance(query, (Marginal, Residual)) else ()
    domain.canonical(query.attributes)
    noise = entry.get("noise")
    if noise is not None:
        _require(isinstance(noise, dict), "the noise of a measurement is damaged")
        restore(noise)
    sd = _number(entry.get("sd"), "sd of a measurement", least=0.0)
    values = _array(archive.read(f"measurements/{place}.npy"))
    _require(values.shape == shape, "a measurement of another shape")
    return Measurement(query, values, sd, noise)


def _replicates(archive: zipfile.ZipFile, entry: Any, hypothesis: Hypothesis) -> Replicates | None:
    """Replicates are optional in every version of the format."""
    if entry is None:
        return None
    _require(isinstance(entry, dict) and isinstance(entry.get("sets"), list), "replicates damaged")
    _require(isinstance(entry.get("seed"), int) and 0 < len(entry["sets"]) <= MOST_SETS, "replicates damaged")
    sets, tables, domain = [], [], hypothesis.domain
    for place, names in enumerate(entry["sets"]):
        listed = _texts(names, "attributes of replicates")
        if isinstance(hypothesis, SupportHypothesis):
            _require(listed == RECORDS, "attributes of replicates")
            shape: tuple[int, ...] = (len(hypothesis.weights),)
        else:
            _require(bool(listed) and domain.canonical(listed) == listed, "attributes of replicates")
            shape = domain.shape_of(listed)
        table = _array(archive.read(f"replicates/{place}.npy"))
        _require(table.dtype == np.float16 and table.ndim > 0, "replicates of another kind")
        count = len(tables[0]) if tables else max(1, len(table))
        _require(table.shape == (count, *shape), "replicates of another shape")
        _require(bool(np.isfinite(table).all()), "replicates are no numbers")
        sets.append(listed)
        tables.append(table)
    return Replicates(hypothesis, entry["seed"], tuple(sets), tuple(tables))


def _array(data: bytes) -> np.ndarray:
    """An array whose header does not claim more than the bytes hold."""
    stream = BytesIO(data)
    version = np.lib.format.read_magic(stream)
    _require(version == (1, 0), "a measurement of another version")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    _require(dtype.kind in "fiu", "a measurement without numbers")
    _require(math.prod(shape) * dtype.itemsize == len(data) - stream.tell(), "a measurement is cut short")
    return np.frombuffer(data, dtype, offset=stream.tell()).reshape(shape, order="F" if fortran else "C")


def _require_distribution(hypothesis: Hypothesis) -> None:
    """Refuse shares that are not a distribution; they would be answered as if they were one."""
    shares = np.asarray(hypothesis.marginal(hypothesis.domain.names[:1]))
    holds = np.isfinite(shares).all() and (shares > -1e-9).all() and abs(float(shares.sum()) - 1.0) < 1e-6
    _require(bool(holds), "the hypothesis is no distribution")
