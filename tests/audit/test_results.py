"""Results: JSON in and out, recomputed bounds, files written whole or not at all."""

import json
import math

import numpy as np
import pytest

from epsaudit import ZCDP, ApproxDP, AuditError, AuditResult, DatasetPair, GaussianDP, PureDP, audit, vectorized
from epsaudit.certificates import Box, Counts, MembershipGame
from epsaudit.results import load, save, write_whole
from epsaudit.witnesses import Interval, Region, Witness


def result(claim=None, **changes):
    fields = {
        "mechanism": "laplace",
        "claim": claim or PureDP(1.0),
        "pair": "0 against 1",
        "x": "0",
        "x_prime": "1",
        "trials": 10_000,
        "training_runs": 2_500,
        "confidence": 0.95,
        "certificate": MembershipGame(),
        "witness": Witness(Region(intervals=(Interval(high=0.0),)), Region(intervals=(Interval(low=1.0),))),
        "counts": Counts(3700, 3800, 1850, 700, 680, 1900),
        "exact": 1.0,
        "seed": 7,
    }
    return AuditResult(**(fields | changes))


class TestBounds:
    def test_they_follow_from_the_counts_by_hand(self):
        r = result()
        assert r.lower_bound == float(MembershipGame().epsilon(r.counts, 0.0, 0.95)) == r.epsilon_lower
        assert r.delta_lower == float(MembershipGame().delta(r.counts, 1.0, 0.95))
        assert r.runs == 7_500

    def test_epsilon_and_delta_are_read_at_the_claims_own_point(self):
        r = result(ApproxDP(1.0, 1e-3))
        assert r.point == (1.0, 1e-3)
        assert r.lower_bound == r.epsilon_lower == float(MembershipGame().epsilon(r.counts, 1e-3, 0.95))

    def test_a_claim_about_a_curve_is_read_at_its_tangent(self):
        r = result(GaussianDP(1.0), certificate=MembershipGame(0.5))
        assert r.point == (0.5, GaussianDP(1.0).profile(0.5))
        assert r.lower_bound == pytest.approx(float(GaussianDP(1.0).least_at(0.5, r.delta_lower)))

    def test_violation_is_a_bound_above_the_claim(self):
        assert result(PureDP(0.5)).verdict == "violated"
        assert result(PureDP(1.5)).verdict == "consistent"
        assert result(PureDP(1.5), expected="violated").surprising

    def test_the_text_says_what_was_shown(self):
        text = str(result(PureDP(0.5)))
        for part in ("laplace", "0.5-DP", "95%", "contradicts the claim", "{y <= 0} for x", "1,850 of 3,700 on x", "7"):
            assert part in text
        assert "does not refute" in str(result(PureDP(1.5)))
        assert "private" not in text


class TestJson:
    @pytest.mark.parametrize("claim", [PureDP(1.0), ApproxDP(1.0, 1e-5), ZCDP(0.5), GaussianDP(1.0)])
    def test_a_result_survives(self, claim):
        before = audit(
            vectorized(lambda d, n, rng: d + rng.laplace(size=n), claim=claim, pairs=[DatasetPair(0, 1)]),
            trials=5000,
            seed=1,
        )
        after = AuditResult.from_dict(json.loads(json.dumps(before.to_dict())))
        assert after == before
        assert after.lower_bound == before.lower_bound
        assert str(after) == str(before)

    def test_the_documented_fields_are_there(self):
        documented = (
            "mechanism claim pair trials confidence certificate witness counts lower_bound epsilon_lower delta_lower "
            "proven exact verdict seed provenance"
        )
        assert set(documented.split()) <= set(result().to_dict())

    def test_bounds_in_a_file_are_not_believed_but_recomputed(self):
        data = result().to_dict() | {"lower_bound": 9.9}
        assert AuditResult.from_dict(data).lower_bound == result().lower_bound

    @pytest.mark.parametrize("atom", [None, "no", 3, 0.1, math.inf, (1, None, "a"), True])
    def test_atoms_of_every_kind_survive(self, atom):
        r = result(witness=Witness(Region(included=(atom,)), None), certificate=Box())
        outputs = np.empty(2, dtype=object)
        outputs[:] = [atom, "something else"]
        after = AuditResult.from_dict(json.loads(json.dumps(r.to_dict())))
        assert after.witness.count(outputs) == (1, 0)

    def test_infinite_exact_values_are_valid_json(self):
        text = json.dumps(result(exact=math.inf).to_dict(), allow_nan=False)
        assert AuditResult.from_dict(json.loads(text)).exact == math.inf

    @pytest.mark.parametrize("field", ["claim", "counts", "witness", "certificate", "confidence"])
    def test_a_missing_field_is_named(self, field):
        data = result().to_dict()
        del data[field]
        with pytest.raises(AuditError, match=field):
            AuditResult.from_dict(data)


class TestFiles:
    def test_save_and_load(self, tmp_path):
        path = tmp_path / "new" / "audit.json"
        save([result(), result(PureDP(2.0))], path)
        assert json.loads(path.read_text())["schema"] == 1
        assert load(path) == [result(), result(PureDP(2.0))]

    @pytest.mark.parametrize(
        "text", ["", "[]", '{"schema": 2, "results": []}', '{"schema": 1}', '{"schema": 1, "results": [3]}']
    )
    def test_what_is_no_result_file_is_refused(self, tmp_path, text):
        path = tmp_path / "audit.json"
        path.write_text(text)
        with pytest.raises(AuditError):
            load(path)

    def test_a_folder_that_cannot_be_written_leaves_nothing(self, tmp_path):
        blocker = tmp_path / "file"
        blocker.write_text("in the way")
        with pytest.raises(AuditError, match="cannot be written"):
            write_whole(blocker / "audit.json", "x")
        assert [p.name for p in tmp_path.iterdir()] == ["file"]

    def test_a_failed_write_leaves_the_old_file(self, tmp_path, monkeypatch):
        path = tmp_path / "audit.json"
        path.write_text("old")

        def full(self, content):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("pathlib.Path.write_bytes", full)
        with pytest.raises(AuditError, match="No space left on device"):
            write_whole(path, "new")
        assert path.read_text() == "old"
        assert [p.name for p in tmp_path.iterdir()] == ["audit.json"]
