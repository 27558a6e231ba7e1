"""Files of scores that are damaged or have another layout: each is refused by one sentence, and never as a defect."""

import io
import json
import zipfile

import numpy as np
import polars
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from epsaudit import AuditError, PureDP, audit_scores
from epsaudit.audits.scores import MAX_COUNTED_SCORES, MAX_SCORES_ON_CURVE, audit_counts
from epsaudit.tools.cli import AS_EXPECTED, BAD_INPUT, SURPRISED
from epsaudit.tools.cli.main import main
from epsaudit.tools.cli.score_files import read_scores

RNG = np.random.default_rng(0)
COINS = RNG.random(40) < 0.5
VALUES = RNG.normal(size=40)


def npy(array, **settings):
    found = io.BytesIO()
    np.save(found, array, **settings)
    return found.getvalue()


def npz(**arrays):
    found = io.BytesIO()
    np.savez(found, **arrays)
    return found.getvalue()


def parquet(**columns):
    found = io.BytesIO()
    polars.DataFrame(columns, strict=False).write_parquet(found)
    return found.getvalue()


def header_of_many_rows(rows):
    """Return an .npy file whose header announces this number of rows, and which ends after the header."""
    found = io.BytesIO()
    np.lib.format.write_array_header_1_0(found, {"descr": "<f8", "fortran_order": False, "shape": (rows, 2)})
    return found.getvalue()


def zipped(name, content):
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(name, content)
    return found.getvalue()


GOOD = npz(included=COINS, score=VALUES)
FILES = [
    ("empty.csv", b"", "is empty"),
    ("empty.npy", b"", "is empty"),
    ("empty.npz", b"", "is empty"),
    ("empty.parquet", b"", "is empty"),
    ("header.csv", b"included,score\n", "has no rows below its first line"),
    ("blank.csv", b"\n\n\n", "has no rows below its first line"),
    ("no_rows.npz", npz(included=COINS[:0], score=VALUES[:0]), "has no rows"),
    ("no_rows.npy", npy(np.zeros((0, 2))), "has no rows"),
    ("no_rows.parquet", parquet(included=[], score=[]), "has no rows"),
    ("no_columns.npz", npz(), "has no columns"),
    ("one_row.csv", b"included,score\n1,0.5\n", "All 1 scores in"),
    ("one_kind.csv", b"included,score\n0,0.5\n0,0.7\n", "are not members; both are needed"),
    ("long.csv", b"included,score\n1," + b"9" * 200_000 + b"\n", "field larger than field limit"),
    ("wide.csv", b"included,score\n1,0.5\n0," + b"x" * 100_000 + b"\n", "it must be a number"),
    ("zero.csv", b"included,score\n1,\x000.5\n0,1\n", "must be a number"),
    ("latin.csv", b"included,score\n1,\xff\n", "can't decode byte 0xff"),
    ("ragged.csv", b"included,score\n1\n", "has rows of different lengths"),
    ("twice.csv", b"included,score,score\n1,2,3\n0,1,2\n", "has 'score' more than once"),
    ("words.csv", b"in,out\nhigh,1\nlow,2\n", "A score in"),
    ("words.npz", npz(**{"in": np.array(["high"]), "out": np.array(["1"])}), "A score in"),
    ("complex.npz", npz(included=COINS, score=VALUES * 1j), "of type complex128; they must be numbers"),
    ("dates.npz", npz(included=COINS, score=np.zeros(40, "M8[s]")), "of type datetime64[s]; they must be numbers"),
    ("records.npz", npz(included=COINS, score=np.zeros(40, "i4,i4")), "they must be numbers"),
    ("text.npz", npz(included=COINS, score=np.array([b"\xff"] * 40)), "it must be a number"),
    ("nan.npz", npz(included=COINS, score=VALUES * np.nan), "40 scores are NaN"),
    ("uneven.npz", npz(included=COINS, score=VALUES[:5]), "has 40 rows of included and 5 of score"),
    ("scalar.npz", npz(included=True, score=1.0), "included in"),
    ("matrix.npz", npz(included=COINS.reshape(8, 5), score=VALUES.reshape(8, 5)), "np.indices((8, 5))"),
    ("sides.npz", npz(**{"in": VALUES.reshape(8, 5), "out": VALUES}), "give one score for each run"),
    ("cut.npz", GOOD[: len(GOOD) // 2], "is not a numpy .npz file, or is truncated"),
    ("spoilt.npz", GOOD.replace(VALUES.tobytes()[:64], b"\0" * 64), "Bad CRC-32"),
    ("other.npz", zipped("included.npy", b"no array"), "which is not a numpy array"),
    ("other_name.npz", zipped("notes.txt", b"no array"), "which is not a numpy array"),
    ("huge.npz", zipped("included.npy", header_of_many_rows(10**13)), "not enough memory"),
    ("huge.npy", header_of_many_rows(10**12), "it may be damaged (mmap length is greater than file size"),
    ("many.npy", npy(RNG.normal(size=(64, 200))), "np.indices((64, 200))"),
    ("line.npy", npy(VALUES), "has 1 dimension, of 40 values; an .npy has columns, in the order included, score, run"),
    ("number.npy", npy(np.array(1.0)), "has shape ()"),
    ("cube.npy", npy(np.zeros((2, 3, 4))), "has shape (2, 3, 4)"),
    ("objects.npy", npy(np.array([None, {}]), allow_pickle=True), "Python objects"),
    ("order.npy", npy(np.stack([VALUES, COINS], axis=1)), "has its columns in the order included, score, run, canary"),
    ("garbage.npy", b"\x93NUMP", "is not a numpy .npy file"),
    ("garbage.parquet", b"PAR1" + b"\xff" * 400 + b"PAR1", "cannot be read as .parquet"),
    ("short.parquet", b"PAR1", "cannot be read as .parquet"),
    ("nulls.parquet", parquet(included=[True, None], score=[1.0, 2.0]), "A value of included is 'none'"),
    ("none.parquet", parquet(included=[True, False], score=["1.5", None]), "A score in"),
    ("lists.parquet", parquet(included=[True, False], score=[[1.0], [2.0]]), "A score in"),
    ("no_run.csv", b"included,score,run\n1,0.5,1\n0,0.5,\n", "runs has no value in row 2"),
    ("no_run.parquet", parquet(included=[1, 0], score=[1.0, 2.0], run=[1, None]), "runs has no value in row 2"),
    ("repeated.csv", b"included,score,run\n1,0.5,a\n1,0.7,a\n0,0.1,b\n", "Run a has 2 scores, and nothing says which"),
    ("joined.csv", b"included,score,run,canary\n1,1,a,0\n0,2,b,0\n1,1,a,0\n", "Canary 0 is twice in run a"),
    ("no_such.txt", b"1,2", "ends in '.txt'; it must end in .csv, .parquet, .npz, .npy"),
]


def refused(words, capsys):
    """Run a command that must be refused, and return its message."""
    assert main(words) == BAD_INPUT
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("epsaudit: ")
    assert err.count("\n") == 1
    assert len(err) < 700
    return err


@pytest.mark.parametrize(("name", "content", "says"), FILES, ids=[name for name, *_ in FILES])
def test_a_file_that_cannot_be_audited_is_refused_in_one_sentence(name, content, says, tmp_path, capfd):
    (tmp_path / name).write_bytes(content)
    said = refused(["scores", str(tmp_path / name), "--epsilon", "1", "--out", str(tmp_path / "out.json")], capfd)
    assert says in said
    assert [one.name for one in tmp_path.iterdir()] == [name]


SOUND = {
    ".csv": b"included,score,run\n" + b"".join(b"%d,%f,%d\n" % row for row in zip(COINS, VALUES, range(40))),  # noqa: B905
    ".npz": npz(included=COINS, score=VALUES, run=np.arange(40)),
    ".npy": npy(np.stack([COINS, VALUES, np.arange(40)], axis=1)),
    ".parquet": parquet(included=COINS, score=VALUES, run=np.arange(40)),
}


@pytest.mark.parametrize("ending", SOUND)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 10**6), length=st.integers(0, 12), put=st.binary(max_size=12))
@example(place=0, length=0, put=b"")
def test_no_spoilt_file_is_a_defect(ending, place, length, put, tmp_path, capfd):
    """Bytes are removed and inserted anywhere in a file; the file is audited or refused by one sentence."""
    sound = SOUND[ending]
    place %= len(sound)
    path = tmp_path / f"spoilt{ending}"
    path.write_bytes(sound[:place] + put + sound[place + length :])
    status = main(["scores", str(path), "--epsilon", "1", "--quiet"])
    out, err = capfd.readouterr()
    assert status in (AS_EXPECTED, SURPRISED, BAD_INPUT)
    assert out == ""
    if status == BAD_INPUT:
        assert err.startswith("epsaudit: ")
        assert err.count("\n") == 1
        assert "defect" not in err
    else:
        assert err == ""


OPTIONS = [
    ("--guesses ²", "guesses is '²'; it must be 'planned'"),
    ("--guesses " + "9" * 5_000, "--guesses has 5,000 digits"),
    ("--guesses 1000", "The number of guesses is 1000; it must be from 1 to 40"),
    ("--profile 3", "--profile is 3; it must be a list of points"),
    ("--profile [[1]]", "--profile is [[1]]; it must be a list of points"),
    ('--profile {"1":2}', "it must be a list of points"),
    ('--profile [["a",0.1]]', "epsilon of a point is 'a'"),
    ("--profile " + "[" * 5_000, "which is not JSON"),
    ("--profile []", "The curve has no points"),
    ("--names score=-nothing", "has no column '-nothing'"),
    ("--names score", "--names has 'score'; give ROLE=COLUMN"),
    ("--names score=a,score=b", "--names has two columns for 'score', 'a' and 'b'"),
    ("--out /proc/nowhere/found.json", "/proc/nowhere/found.json cannot be written"),
    ("--figure scores.gif", "scores.gif must end in one of .png"),
    ("--one-run", "--one-run is for --counts; a file says by its column run"),
]


@pytest.mark.parametrize(("words", "says"), OPTIONS, ids=[words[:30] for words, _ in OPTIONS])
def test_options_that_cannot_be_are_refused_in_one_sentence(words, says, tmp_path, capsys, monkeypatch):
    (tmp_path / "scores.npz").write_bytes(GOOD)
    monkeypatch.chdir(tmp_path)
    claim = [] if words.startswith("--profile") else ["--epsilon", "1"]
    assert says in refused(["scores", "scores.npz", *claim, *words.split(" ", 1)], capsys)


class TestCounts:
    @pytest.mark.parametrize("one_run", [True, False])
    @pytest.mark.parametrize("counts", [(48, 12, 45, 15), (15, 45, 12, 48), (30, 30, 31, 29)])
    def test_counts_certify_what_their_scores_do(self, counts, one_run):
        members, values = (np.repeat(one, counts) for one in ([1, 0, 0, 1], [1.0, 1.0, -1.0, -1.0]))
        runs = None if one_run else np.arange(len(members))
        told = audit_counts(counts, claim=PureDP(1.0), one_run=one_run, seed=1)
        assert told == audit_scores(members, values, claim=PureDP(1.0), runs=runs, threshold=0.0, seed=1, name="counts")

    def test_any_number_of_scores_is_counted_without_making_them(self, capsys):
        quarter = str(MAX_COUNTED_SCORES // 4)
        assert main(["scores", "--counts", *[quarter] * 4, "--epsilon", "1"]) == AS_EXPECTED
        assert "of 500G with the canary" in capsys.readouterr().out.replace("500,000,000,000", "500G")

    @pytest.mark.parametrize(
        ("counts", "more", "says"),
        [
            ([MAX_COUNTED_SCORES] * 4, [], "4,000,000,000,000 scores in all; at most 1,000,000,000,000 are taken"),
            ([10**400, 1, 1, 1], [], "at most 1,000,000,000,000 are taken"),
            ([MAX_SCORES_ON_CURVE, 1, 1, 1], ["--one-run"], "of one run are tested against 1-GDP"),
            ([5, 0, 0, 3], [], "of 8 members and 0 others; some of both are needed"),
            ([-1, 5, 5, 5], [], "a count is -1"),
            ([9, 1, 9, 1], ["--threshold", "0"], "--threshold is for a file of scores; --counts takes none"),
            ([9, 1, 9, 1], ["--guesses", "4", "--names", "score=loss"], "--names and --guesses are for a file of"),
        ],
    )
    def test_counts_that_are_refused(self, counts, more, says, capsys):
        assert says in refused(["scores", "--counts", *map(str, counts), "--mu", "1", *more], capsys)

    def test_a_missing_claim_is_refused(self, capsys):
        words = ["scores", "--counts", "9", "1", "9", "1"]
        assert "An audit of scores needs a claim to audit, one of: --epsilon;" in refused(words, capsys)
        with pytest.raises(AuditError, match="The claim of counts is None; give one, for instance"):
            audit_counts((9, 1, 9, 1), claim=None)


class TestNames:
    LOSSES = b"included,loss,run\n" + b"".join(b"%d,%f,%d\n" % (i % 2, (i % 2) * -6 + i / 200, i) for i in range(200))

    def test_a_column_is_turned_round_by_a_minus_sign(self, tmp_path, capsys):
        path = tmp_path / "losses.csv"
        path.write_bytes(self.LOSSES)
        words = ["scores", str(path), "--epsilon", "1", "--json", "--seed", "1", "--names"]
        assert main([*words, "score=loss"]) == AS_EXPECTED
        assert json.loads(capsys.readouterr().out)["lower_bound"] == 0.0
        assert main([*words, "score=-loss"]) == SURPRISED
        assert json.loads(capsys.readouterr().out)["lower_bound"] > 3.0

    def test_a_column_whose_name_has_the_sign_is_itself(self, tmp_path):
        path = tmp_path / "signed.csv"
        path.write_bytes(b"included,-loss\n1,2.5\n0,1.5\n")
        assert read_scores(path, "score=-loss").score.tolist() == [2.5, 1.5]


def test_what_is_assumed_of_columns_without_names_is_said(tmp_path, capsys):
    np.save(tmp_path / "scores.npy", np.stack([COINS, VALUES], axis=1))
    assert main(["scores", str(tmp_path / "scores.npy"), "--epsilon", "1"]) == AS_EXPECTED
    said = capsys.readouterr().out
    assert "they were taken for included, score, in this order. No column says to which run a score belongs" in said
    with pytest.raises(AuditError, match=r"included has shape \(8, 5\)"):
        audit_scores(COINS.reshape(8, 5), VALUES.reshape(8, 5), epsilon=1.0)
