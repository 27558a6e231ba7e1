"""Tables, checks and scores of audits with a holdout: what an attacker can compute, and what a random split shows."""

import json

import numpy as np
import pandas
import polars
import pytest
from scipy.stats import binom, rankdata
from sklearn.datasets import load_breast_cancer, load_digits

from epsaudit import AuditError
from epsaudit.tools.cli import AS_EXPECTED, BAD_INPUT, SURPRISED
from epsaudit.tools.cli.main import main
from epsaudit.tools.holdout import audit_tables, check_tables, read_tables, score_records
from epsaudit.tools.holdout import distances as distances_module
from epsaudit.tools.holdout.checks import find_difference
from epsaudit.tools.holdout.combinations import count_agreeing
from epsaudit.tools.holdout.encoding import encode_tables
from epsaudit.tools.holdout.neighbours import NEIGHBOURS, find_neighbours
from epsaudit.tools.holdout.tables import Table

AGES, CITIES = [30.5, 20.0, 41.0, 33.0], ["Rome", "Oslo", "Rome", "Kyiv"]


def numbers(values):
    """Return a table of numbers whose columns are named by letters."""
    values = np.asarray(values, float)
    return Table(tuple("abcdefghijklmnopqrstuvwxyz"[: values.shape[1]]), (None,) * values.shape[1], values)


def mixed(values, n_numbers):
    """Return a table whose columns after the first ones are categories, given as their places."""
    table = numbers(values)
    levels = [None if place < n_numbers else tuple(map(str, range(40))) for place in range(values.shape[1])]
    return Table(table.names, tuple(levels), table.values)


def columns(values):
    return {f"c{place}": column for place, column in enumerate(np.asarray(values).T)}


def area(scores, is_train):
    """Return the area under the curve, at least one half."""
    ranks = rankdata(scores)
    n = int(is_train.sum())
    found = (ranks[is_train].sum() - n * (n + 1) / 2) / (n * (len(scores) - n))
    return max(found, 1 - found)


class TestReading:
    @pytest.mark.parametrize("kind", ["csv", "parquet", "pandas", "polars", "mapping"])
    def test_all_sources_give_the_same_table_in_any_order_of_columns(self, kind, tmp_path):
        frame = pandas.DataFrame({"city": CITIES, "age": AGES})
        path = tmp_path / f"table.{kind}"
        if kind == "csv":
            frame.to_csv(path, index=False)
        elif kind == "parquet":
            polars.DataFrame({"city": CITIES, "age": AGES}).write_parquet(path)
        source = {
            "pandas": frame,
            "polars": polars.DataFrame({"city": CITIES, "age": AGES}),
            "mapping": {"city": CITIES, "age": AGES},
        }.get(kind, path)
        found = read_tables({"train": {"age": AGES, "city": CITIES}, "release": source})
        for table in found.values():
            assert table.names == ("age", "city")
            assert table.levels == (None, ("Kyiv", "Oslo", "Rome"))
            assert table.values.tolist() == [[30.5, 2.0], [20.0, 1.0], [41.0, 2.0], [33.0, 0.0]]

    @pytest.mark.parametrize(
        ("train", "release", "levels", "values"),
        [
            (["1", "", "NA"], ["2.5"], None, [1.0, np.nan, np.nan]),  # text that states numbers
            (["1", "A2", None], ["1"], ("1", "A2"), [0.0, 1.0, np.nan]),  # codes, of which the release has some
            ([True, False], ["TRUE"], ("false", "true"), [1.0, 0.0]),
            ([True, False], [1, 0], None, [1.0, 0.0]),
            (["2024-01-02", "2024-01-01 12:00"], ["2024-01-01"], None, [1.7041536e15, 1.7041104e15]),
            (np.array(["2024-01-02", "NaT"], "M8[D]"), ["2024-01-01"], None, [1.7041536e15, np.nan]),
            (["2024-99-99", "x"], ["x"], ("2024-99-99", "x"), [0.0, 1.0]),
            (pandas.array([1, None], "Int64"), [3.0], None, [1.0, np.nan]),
            (pandas.Categorical(["b", None]), ["c"], ("b", "c"), [0.0, np.nan]),
            ([1, "x"], ["1"], ("1", "x"), [0.0, 1.0]),
            ([None, None], ["1"], None, [np.nan, np.nan]),
        ],
    )
    def test_kinds_of_columns(self, train, release, levels, values):
        found = read_tables({"train": pandas.DataFrame({"a": train}), "release": {"a": release}})
        assert found["train"].levels == found["release"].levels == (levels,)
        np.testing.assert_array_equal(found["train"].values[:, 0], values)

    @pytest.mark.parametrize(
        ("train", "release", "says"),
        [
            ({"a": [1], "b": [2]}, {"a": [1]}, "train has 1 column that release does not have: 'b'"),
            ({"a": [1]}, {"a": [1], "b": [2], "c": [3]}, "release has 2 columns that train does not have: 'b', 'c'"),
            ({"a": []}, {"a": [1]}, "train has no records"),
            ({}, {"a": [1]}, "train has no columns"),
            ({"a": [1, 2], "b": [1]}, {"a": [1], "b": [1]}, "train has 2 rows of a and 1 of b"),
            (
                {"a": [20, 30]},
                {"a": ["20-30"]},
                "a contains numbers in train and other values in release, such as '20-30'",
            ),
            ({"a": ["20"]}, {"a": ["old"]}, "a contains numbers in train and other values in release, such as 'old'"),
            ({"a": ["old"]}, {"a": [1.5]}, "a contains numbers in release and other values in train, such as 'old'"),
            ({"a": [[1], [2]]}, {"a": [1]}, "a of train has shape (2, 1)"),
            ({"a": [[1], [2, 3]]}, {"a": [1]}, "a of train contains a list"),
            ({"a": [1j]}, {"a": [1]}, "a of train has the type complex128"),
            ([[1, 2]], {"a": [1]}, "train is a list; it must be the path of a file, a data frame"),
            ("no_such_file.csv", {"a": [1]}, "no_such_file.csv cannot be read: No such file"),
            ("table.xlsx", {"a": [1]}, "ends in '.xlsx'; it must end in .csv"),
            (pandas.DataFrame([[1, 2]], columns=["a", "a"]), {"a": [1]}, "train has the column 'a' more than once"),
        ],
    )
    def test_tables_that_cannot_be_used_are_refused(self, train, release, says):
        with pytest.raises(AuditError) as error:
            read_tables({"train": train, "release": release})
        assert says in str(error.value)

    def test_columns_are_selected_by_name(self):
        sources = {"train": {"id": [1, 2], "age": [30, 40]}, "release": {"age": [50]}}
        assert read_tables(sources, ["age"])["train"].values.tolist() == [[30], [40]]
        with pytest.raises(AuditError, match=r"train has no column 'agee'\. Did you mean 'age'"):
            read_tables(sources, ["agee"])


class TestEncoding:
    def test_scores_do_not_depend_on_the_order_of_rows(self):
        rng = np.random.default_rng(0)
        values = np.column_stack([rng.normal(size=700), rng.integers(0, 9, (700, 2)), rng.integers(0, 3, (700, 2))])
        values[rng.random(values.shape) < 0.05] = np.nan
        values[350:400] = values[:50]  # equal records, partly in both halves
        records, release = mixed(values, 3), mixed(values[rng.integers(0, 350, 300)], 3)
        scores, names, _ = score_records(records, release, seed=1)
        assert scores.shape == (700, len(names))
        assert np.isfinite(scores).all()
        np.testing.assert_array_equal(scores[350:400], scores[:50])
        for seed in range(3):
            order = np.random.default_rng(seed).permutation(700)
            rows = np.random.default_rng(seed).permutation(300)
            again, *_ = score_records(mixed(values[order], 3), mixed(release.values[rows], 3), seed=1)
            np.testing.assert_array_equal(again, scores[order])

    def test_numbers_are_ranked_and_missing_values_are_apart(self):
        values = np.array([[3.0], [-0.0], [np.nan], [1e9]])
        found = encode_tables(numbers(values), numbers([[0.0], [7.0]]))
        order = found.row_of
        assert (np.round(found.records.ranks[order, 0] * 5, 6)).tolist() == [2.5, 1.0, -5.0, 4.5]
        assert found.copies[order].tolist() == [0.0, 1.0, 0.0, 0.0]
        assert found.records.scaled[order, 0].tolist()[2:] == [-15.0, 5.0]


class TestNeighbours:
    @staticmethod
    def brute_force(records, release, n_numbers):
        """Return Gower distances by ranks among all rows, and distances of standardised numbers."""
        both = np.concatenate([records, release])
        ranks = np.array([rankdata(column) for column in both.T]).T
        ranks = np.where(np.arange(both.shape[1]) < n_numbers, (ranks - 0.5) / len(both), both)
        found = np.minimum(np.abs(ranks[: len(records), None] - ranks[None, len(records) :]), 1).mean(axis=2)
        return np.sort(found, axis=1)

    @pytest.mark.parametrize(("size", "columns"), [(90, 4), (2500, 6)])
    def test_distances_are_those_of_a_search_among_all_rows(self, size, columns):
        rng = np.random.default_rng(size)
        values, rows = (
            np.column_stack([rng.normal(size=(n, columns)), rng.integers(0, 3, (n, 2))]) for n in (80, size)
        )
        encoded = encode_tables(mixed(values, columns), mixed(rows, columns))
        found = find_neighbours(encoded.records, encoded.release, encoded.is_number).ranks[encoded.row_of]
        expected = self.brute_force(values, rows, columns)[:, :NEIGHBOURS]
        assert np.mean(np.isclose(found, expected, atol=1e-6)) > (0.999 if size < 256 else 0.95)
        assert np.all(found >= expected - 1e-6)

    def test_a_near_copy_among_many_rows_and_columns_is_found(self):
        """The embedding has 120 dimensions, of which 48 are kept, and the rows are in several blocks."""
        rng = np.random.default_rng(1)
        values, rows = (np.column_stack([rng.normal(size=(n, 40)), rng.integers(0, 8, (n, 10))]) for n in (300, 5000))
        rows[:300] = values
        rows[:300, :40] += 1e-3 * rng.normal(size=(300, 40))
        encoded = encode_tables(mixed(values, 40), mixed(rows, 40))
        found = find_neighbours(encoded.records, encoded.release, encoded.is_number)
        assert found.ranks[:, 0].max() < 0.01 < 0.1 < found.ranks[:, 1].min()
        assert found.scaled[:, 0].max() < 0.01 < 0.1 < found.scaled[:, 1].min()

    def test_a_distance_is_zero_if_and_only_if_the_release_has_the_record(self):
        rng = np.random.default_rng(2)
        values = rng.normal(size=(500, 3))
        near = np.nextafter(values[:200], np.inf)
        scores, names, _ = score_records(numbers(values), numbers(np.concatenate([values[100:300], near])), seed=1)
        is_copy = (np.arange(500) >= 100) & (np.arange(500) < 300)
        np.testing.assert_array_equal(scores[:, names.index("distance")] == 0, is_copy)
        np.testing.assert_array_equal(scores[:, names.index("copies")] == 1, is_copy)

    def test_exact_copies_are_found_in_a_release_of_which_a_sample_is_searched(self, monkeypatch):
        rng = np.random.default_rng(3)
        values = rng.normal(size=(200, 3))
        release = np.concatenate([values[:50], rng.normal(size=(950, 3))])
        monkeypatch.setattr(distances_module, "MAX_SEARCHED_DISTANCES", 200 * 30)
        scores, names, notes = score_records(numbers(values), numbers(release), seed=1)
        np.testing.assert_array_equal(scores[:, names.index("distance")] == 0, np.arange(200) < 50)
        assert "a random sample of 30 of the 1,000 distinct records of the release" in notes[0]

    def test_few_rows_and_the_record_itself(self):
        encoded = encode_tables(numbers([[0.0], [1.0], [2.0]]), numbers([[5.0]]))
        near = find_neighbours(encoded.records, encoded.release, encoded.is_number)
        assert np.all(near.ranks == near.ranks[:, :1])
        alone = find_neighbours(encoded.release, encoded.release, encoded.is_number, np.array([0]))
        assert np.all(alone.ranks == 1.0)


def draw_leaks(rng, values, n):
    """Yield a release of train, the first ``n`` rows, with the scores that must tell its records from others."""
    train = values[:n]
    yield train[rng.integers(0, n, n // 2)], ("copies", "distance", "queries", "matched queries")
    near = train + np.where(np.arange(values.shape[1]) < 4, 0.01 * rng.normal(size=train.shape), 0)
    yield near, ("distance", "second distance", "distance ratio", "scaled distance", "local density", "rare triples")
    yield near, ("scaled distance ratio", "near density")
    yield np.array([rng.permutation(column) for column in train.T]).T, ("rare values",)  # values without their records


class TestScores:
    def test_every_score_tells_train_records_where_the_release_contains_what_it_measures(self):
        rng = np.random.default_rng(0)
        values = np.column_stack([rng.normal(size=(1200, 4)), rng.integers(0, 40, (1200, 2))])
        is_train = np.arange(1200) < 600
        for release, names in draw_leaks(rng, values, 600):
            scores, found, _ = score_records(mixed(values, 4), mixed(release, 4), seed=1)
            for name in names:
                assert area(scores[:, found.index(name)], is_train) > 0.6, name

    def test_a_record_with_an_equal_one_has_no_distance_to_other_records(self):
        rng = np.random.default_rng(0)
        values = rng.normal(size=(200, 3))
        values[1] = values[0]
        scores, names, _ = score_records(numbers(values), numbers(rng.normal(size=(100, 3))), seed=1)
        density = scores[:, names.index("local density")]
        assert density[0] == density[1] < density[2:].min() - 1

    def test_a_rare_value_outweighs_many_common_ones(self):
        """Of 20 records with a value of their own, the release contains the values of 10."""
        rng = np.random.default_rng(0)
        values, rows = (rng.integers(0, 20, (n, 10)).astype(float) for n in (400, 300))
        values[:20, 0], rows[:10, 0] = 20 + np.arange(20), 20 + np.arange(10)
        scores, names, _ = score_records(mixed(values, 0), mixed(rows, 0), seed=1)
        assert area(scores[:20, names.index("rare values")], np.arange(20) < 10) == 1

    def test_a_tree_joins_a_part_of_very_many_columns(self, monkeypatch):
        from epsaudit.tools.holdout import marginals

        values = np.random.default_rng(0).normal(size=(60, 6))
        monkeypatch.setattr(marginals, "MAX_TREE_COLUMNS", 3)
        encoded = encode_tables(numbers(values), numbers(values[:20]))
        sizes = encoded.records.bins.max(axis=0) + 1
        tree = marginals._spanning_tree(encoded.records, encoded.records.bins, sizes, np.random.default_rng(1))
        assert len(tree) == 2
        assert len({column for pair in tree for column in pair}) == 3

    def test_rare_pairs_tell_train_records_if_the_release_contains_their_pairs(self):
        rng = np.random.default_rng(0)
        values = np.column_stack([rng.normal(size=800), rng.integers(0, 40, (800, 2))])
        release = values[rng.permutation(800)[:400]]
        release[:, 1:] = values[:400, 1:]
        scores, names, _ = score_records(mixed(values, 1), mixed(release, 1), seed=1)
        assert area(scores[:, names.index("rare pairs")], np.arange(800) < 400) > 0.6
        assert area(scores[:, names.index("rare values")], np.arange(800) < 400) < 0.6

    def test_likelihoods_tell_train_records_from_others_of_another_law(self):
        rng = np.random.default_rng(0)
        values = rng.normal(size=(1000, 4))
        values[:500, 1] = values[:500, 0] + 0.3 * rng.normal(size=500)  # dependence that only the tree can see
        is_train = np.arange(1000) < 500
        first = values[rng.integers(0, 500, 500)] + 0.1 * rng.normal(size=(500, 4))
        scores, names, _ = score_records(numbers(values), numbers(first), seed=1)
        assert area(scores[:, names.index("tree")], is_train) > 0.7
        assert area(scores[:, names.index("marginals")], is_train) < 0.6
        shifted = values + 1.5 * is_train[:, None]
        scores, names, _ = score_records(numbers(shifted), numbers(shifted[:500] + 0.01), seed=1)
        assert area(scores[:, names.index("marginals")], is_train) > 0.8

    def test_no_score_tells_train_records_from_others_if_the_release_is_of_neither(self):
        """200 comparisons of 100 of each kind with fresh records: no area is 7 standard errors from one half."""
        rng = np.random.default_rng(5)
        is_train = np.arange(200) < 100
        for seed in range(10):
            draw = np.column_stack([rng.normal(size=(300, 3)), rng.integers(0, 4, (300, 2))])
            scores, _, _ = score_records(mixed(draw[:200], 3), mixed(draw[200:], 3), seed=seed)
            assert max(area(column, is_train) for column in scores.T) < 0.5 + 5 * np.sqrt(201 / (12 * 100 * 100))

    def test_counts_are_those_of_agreeing_records(self):
        rng = np.random.default_rng(6)
        values, rows = rng.integers(0, 3, (60, 12)).astype(float), rng.integers(0, 3, (40, 12)).astype(float)
        encoded = encode_tables(mixed(values, 0), mixed(rows, 0))
        for columns in ([0], [3, 5], list(range(12))):
            among_records, in_release = count_agreeing(encoded, columns)
            for found, others in ((among_records, values), (in_release, rows)):
                expected = np.all(values[:, None, columns] == others[None, :, columns], axis=2).sum(axis=1)
                np.testing.assert_array_equal(found[encoded.row_of], expected)

    def test_combinations_with_more_cells_than_counters_are_counted(self, monkeypatch):
        from epsaudit.tools.holdout import combinations

        rng = np.random.default_rng(7)
        values = rng.integers(0, 4, (100, 5)).astype(float)
        encoded = encode_tables(mixed(values, 0), mixed(values[:30], 0))
        expected = count_agreeing(encoded, [0, 1, 4])
        monkeypatch.setattr(combinations, "MAX_COUNTERS", 10)
        np.testing.assert_array_equal(count_agreeing(encoded, [0, 1, 4]), expected)

    def test_one_column_and_one_record(self):
        scores, names, _ = score_records(numbers([[1.0], [2.0]]), numbers([[2.0]]), seed=0)
        assert np.isfinite(scores).all()
        assert scores[:, names.index("distance")].tolist() == [pytest.approx(1 / 2), 0.0]


class TestChecks:
    RELEASE = numbers(np.random.default_rng(9).normal(size=(50, 2)))

    @staticmethod
    def halves(seed, n=300):
        values = np.random.default_rng(seed).normal(size=(2 * n, 2)).round(2)
        return values[:n], values[n:]

    def refusal(self, train, holdout, release=RELEASE, strata=None):
        with pytest.raises(AuditError) as error:
            check_tables(train, holdout, release, strata)
        return str(error.value)

    def test_a_shift_is_refused_and_named(self):
        train, holdout = self.halves(1)
        said = self.refusal(numbers(train + np.array([0, 1])), numbers(holdout))
        assert said.startswith("b has mean 1.002 in train and -0.07673 in holdout (p = 4e-21)")
        assert "the parts were not split at random" in said

    def test_another_spread_is_refused_and_named(self):
        train, holdout = self.halves(2)
        said = self.refusal(numbers(np.sign(train) * 5), numbers(np.sign(holdout)))
        assert "(p = " in said

    def test_categories_and_missing_values_are_compared(self):
        rng = np.random.default_rng(3)
        codes = rng.integers(0, 3, (600, 2)).astype(float)
        codes[:300, 1] = rng.integers(0, 2, 300)
        said = self.refusal(mixed(codes[:300], 1), mixed(codes[300:], 1), mixed(codes[:5], 1))
        assert said.startswith("b is '2' for a share of 0 of train and of 0.3")
        train, holdout = self.halves(4)
        train[:60, 0] = np.nan
        assert "a share of 0.2 of a is missing in train and of 0 in holdout" in self.refusal(
            numbers(train), numbers(holdout)
        )

    def test_random_splits_have_valid_p_values(self):
        """Of 400 random splits, p-values below 0.1 are expected in 40 at most; 65 have a probability of 1e-4."""
        rng = np.random.default_rng(5)
        values = np.column_stack([rng.normal(size=400), rng.exponential(size=400) > 3, rng.integers(0, 30, 400)])
        table = mixed(values, 2)
        found = []
        for _ in range(400):
            order = rng.permutation(400)
            parts = (Table(table.names, table.levels, table.values[rows]) for rows in (order[:60], order[60:]))
            found.append(find_difference(*parts).p_value)
        assert np.mean(np.array(found) < 0.1) < 65 / 400
        assert min(found) > 1e-6

    def test_a_rare_value_in_a_small_part_is_no_difference(self):
        """One of 10,000 records is in a part of 100 once in 100 splits; a normal approximation says 1e-23."""
        values = np.zeros((10_100, 1))
        values[0] = 1
        assert find_difference(numbers(values[:100]), numbers(values[100:])).p_value > 0.01

    def test_a_split_within_strata_is_compared_within_them(self):
        rng = np.random.default_rng(6)
        stratum = np.repeat([0.0, 1.0], 400)
        values = np.column_stack([rng.normal(size=800) + 3 * stratum, stratum])
        in_train = rng.random(800) < np.where(stratum == 1, 0.8, 0.2)
        parts = [numbers(values[rows]) for rows in (in_train, ~in_train)]
        strata = [part.values[:, 1].astype(str) for part in parts]
        assert "b has mean" in self.refusal(*parts) or "a has mean" in self.refusal(*parts)
        assert check_tables(*parts, self.RELEASE, strata) == []
        shifted = numbers(parts[0].values + np.array([1, 0]))
        assert "Within a stratum, a has mean" in self.refusal(shifted, parts[1], strata=strata)

    def test_equal_tables_are_refused(self):
        train, holdout = self.halves(7)
        a, b = numbers(train), numbers(holdout)
        assert self.refusal(a, b, numbers(train[::-1])).startswith("The release is the training file")
        assert self.refusal(a, b, b).startswith("The release is the holdout file")
        assert self.refusal(a, numbers(train[::-1])).startswith("Train and holdout contain the same 300 records")
        assert check_tables(a, b, numbers(train[1:])) == []

    def test_parts_that_are_equal_by_chance_are_accepted(self):
        coins = np.repeat([[0.0], [1.0]], 50, axis=0)
        notes = check_tables(numbers(coins), numbers(coins), numbers(coins[:30]))
        assert "100 records of train are also in the holdout" in notes[0]

    def test_records_in_both_parts_are_counted(self):
        train, holdout = self.halves(8)
        holdout[:3] = train[:3]
        (note,) = check_tables(numbers(train), numbers(holdout), self.RELEASE)
        assert note.startswith("3 records of train are also in the holdout")
        (note,) = check_tables(numbers(train), numbers(np.concatenate([holdout[3:], train[:1]])), self.RELEASE)
        assert note.startswith("1 record of train is also in the holdout")


def split(loader, seed, size=None):
    """Return the records of a data set of scikit-learn with their classes, split at random into halves."""
    data, classes = loader(return_X_y=True)
    records = np.column_stack([data, classes])
    order = np.random.default_rng(seed).permutation(len(records))[:size]
    half = len(order) // 2
    return records[order[:half]], records[order[half : 2 * half]]


class TestAudits:
    def test_copies_of_a_tenth_of_the_records_are_caught(self):
        train, holdout = split(load_digits, 1)
        result = audit_tables(columns(train), columns(holdout), columns(train[:90]), epsilon=2.0, seed=1)
        assert result.violates_claim
        assert result.lower_bound > 2.9

    def test_averages_of_neighbours_are_caught(self):
        train, holdout = split(load_breast_cancer, 2)
        scaled = train / train.std(axis=0)
        near = np.argsort(((scaled[:, None] - scaled[None]) ** 2).sum(axis=2), axis=1)[:, 1]
        release = (train + train[near]) / 2
        result = audit_tables(columns(train), columns(holdout), columns(release), epsilon=1.0, seed=1)
        assert result.violates_claim

    @pytest.mark.parametrize("kind", ["noise", "marginals of others"])
    def test_a_release_without_the_train_records_is_not_refuted(self, kind):
        """Each bound exceeds 0 with a probability of 0.05; 4 of 6 do with a probability of 1e-4."""
        above = 0
        for seed in range(6):
            rng = np.random.default_rng(seed)
            data, classes = load_breast_cancer(return_X_y=True)
            records = np.column_stack([data[:, :8], classes])[rng.permutation(len(data))]
            train, holdout, others = records[:180], records[180:360], records[360:]
            release = np.array([rng.permutation(column) for column in others.T]).T
            if kind == "noise":
                release = rng.normal(size=(200, 9)) * train.std(axis=0).round(1)
            result = audit_tables(columns(train), columns(holdout), columns(release), epsilon=0.0, seed=seed)
            above += result.lower_bound > 0.0
        assert above < 4

    @pytest.mark.parametrize(("epsilon", "repetitions"), [(2.0, 12), pytest.param(3.0, 300, marks=pytest.mark.slow)])
    def test_bounds_on_a_release_that_attains_its_claim_hold(self, epsilon, repetitions):
        """Each record of a known population is released with odds of exp(epsilon / 2) if it is in train, else against.

        The substitution of a record changes two of them, so that the release attains epsilon. Too many bounds above it
        have a probability of 0.001 at most.
        """
        odds = np.exp(epsilon / 2)
        found = []
        for seed in range(repetitions):
            rng = np.random.default_rng(seed)
            population = rng.normal(size=(400, 2))
            released = rng.random(400) < np.where(np.arange(400) < 200, odds, 1) / (1 + odds)
            tables = [columns(rows) for rows in (population[:200], population[200:], population[released])]
            found.append(audit_tables(*tables, seed=seed).lower_bound)
        assert np.sum(np.array(found) > epsilon) <= binom.isf(1e-3, repetitions, 0.05)
        assert np.median(found) > 0.4 * epsilon

    def test_strata_and_notes_reach_the_result(self):
        rng = np.random.default_rng(3)
        sex = np.repeat(["f", "m"], 200)
        age = rng.normal(size=400) + 3 * (sex == "m")
        in_train = rng.random(400) < np.where(sex == "m", 0.8, 0.2)
        train, holdout = ({"age": age[rows], "sex": sex[rows]} for rows in (in_train, ~in_train))
        holdout["age"][0] = train["age"][0]
        release = {"age": rng.normal(size=50), "sex": sex[:50]}
        result = audit_tables(train, holdout, release, strata=["sex"], seed=1)
        assert result.pairs + result.opened < min(in_train.sum(), (~in_train).sum()) - 50
        assert result.notes[0].startswith("1 record of train is also in the holdout")
        with pytest.raises(AuditError, match="the parts were not split at random"):
            audit_tables(train, holdout, release, seed=1)
        with pytest.raises(AuditError, match=r"strata names 'sexe', which is no column of train\. Did you mean 'sex'"):
            audit_tables(train, holdout, release, strata=["sexe"])

    def test_the_seed_determines_the_result(self):
        train, holdout = split(load_breast_cancer, 4, 200)
        tables = [columns(part) for part in (train, holdout, train[:20])]
        first, second = (audit_tables(*tables, epsilon=1.0, seed=5) for _ in range(2))
        assert first == second
        assert first.seed == 5


class TestCommand:
    @pytest.fixture
    def folder(self, tmp_path, monkeypatch):
        """Return a folder with scores of two parts that differ, and with tables of which the release has copies."""
        monkeypatch.chdir(tmp_path)
        rng = np.random.default_rng(1)
        for name, scale in (("a", 0.1), ("b", 1.0)):
            frame = pandas.DataFrame({"loss": rng.exponential(scale, 200), "other": rng.normal(size=200)})
            frame["site"] = np.repeat(["x", "y"], 100)
            frame.to_csv(f"{name}.csv", index=False)
            np.save(f"{name}.npy", frame["loss"])
        values = rng.normal(size=(600, 2))
        for name, rows in (("train", values[:300]), ("holdout", values[300:]), ("release", values[:40])):
            pandas.DataFrame(rows, columns=["age", "income"]).to_csv(f"{name}.csv", index=False)
        return tmp_path

    TABLES = "--train train.csv --holdout holdout.csv --release release.csv"

    @pytest.mark.parametrize(
        ("words", "status", "says"),
        [
            ("a.csv b.csv --columns loss,other --epsilon 1", SURPRISED, "contradicts the claim"),
            ("a.csv b.csv --columns loss --strata site --epsilon 1", SURPRISED, "contradicts the claim"),
            ("a.csv b.csv --strata site --epsilon 100", AS_EXPECTED, "This audit could not have refuted the claim"),
            ("a.npy b.npy", AS_EXPECTED, "under substitution of a record at 95% confidence, from one run; no claim"),
            ("a.npy b.npy --mu 0.1", SURPRISED, "contradicts the claim"),
            (f"{TABLES} --epsilon 1", SURPRISED, "difference of copies"),
            (f"{TABLES} --epsilon 5 --delta 0.01 --adjacency add-remove", AS_EXPECTED, "adding or removing a record"),
            (f"{TABLES} --columns age", AS_EXPECTED, "no claim was given"),
        ],
    )
    def test_both_forms(self, words, status, says, folder, capsys):
        assert main(["holdout", *words.split(), "--seed", "1"]) == status
        assert says in capsys.readouterr().out
        assert main(["holdout", *words.split(), "--seed", "1", "--quiet"]) == status
        assert capsys.readouterr().out == ""

    def test_the_result_file_is_verified_and_json_is_printed(self, folder, capsys):
        words = ["holdout", *self.TABLES.split(), "--epsilon", "1", "--seed", "1", "--out", "result.json", "--json"]
        assert main(words) == SURPRISED
        printed = json.loads(capsys.readouterr().out)
        stored = json.loads((folder / "result.json").read_text())["results"][0]
        assert printed["lower_bound"] == stored["lower_bound"] > 2
        assert printed["reach"] > printed["lower_bound"]
        assert main(["verify", "result.json"]) == AS_EXPECTED
        assert f"--seed {printed['seed']}" in json.dumps(stored)

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            ("", "Give two files of scores, of the train part and of the holdout, or all of --train, --holdout and"),
            ("a.csv", "1 file were given"),
            ("--train train.csv --release release.csv", "0 files, --train and --release were given"),
            (f"a.csv b.csv {TABLES}", "2 files, --train, --holdout and --release were given"),
            ("a.csv b.csv", "site contains 'x'; scores must be numbers"),
            ("a.csv a.csv --columns loss", "a.csv and a.csv contain the same scores"),
            ("a.csv train.csv", "train has 3 columns that holdout does not have: 'loss', 'other', 'site'"),
            ("a.csv b.csv --columns site --strata site", "All columns of a.csv name strata"),
            ("a.npy b.npy --epsilon 1 --mu 1", "epsilon, mu together make no claim"),
            ("--train train.csv --holdout holdout.csv --release train.csv", "The release is the training file"),
            ("--train train.csv --holdout train.csv --release release.csv", "Train and holdout contain the same 300"),
            ("--train train.csv --holdout holdout.csv --release no.csv", "no.csv cannot be read"),
        ],
    )
    def test_refusals_are_one_sentence(self, words, says, folder, capsys):
        assert main(["holdout", *words.split()]) == BAD_INPUT
        out, err = capsys.readouterr()
        assert out == ""
        assert says in err
        assert err.count("\n") == 1
