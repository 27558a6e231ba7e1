"""PipelineDP's count of one public partition, on its local backend."""

import pipeline_dp
from serving import repeated, serve

COUNT = pipeline_dp.AggregateParams(
    metrics=[pipeline_dp.Metrics.COUNT],
    noise_kind=pipeline_dp.NoiseKind.LAPLACE,
    max_partitions_contributed=1,
    max_contributions_per_partition=1,
)
COLUMNS = pipeline_dp.DataExtractors(
    privacy_id_extractor=lambda record: record[0],
    partition_extractor=lambda record: record[1],
    value_extractor=lambda record: 0,
)


def count(epsilon, given_as):
    """Records (person, partition), given as a list or an iterator; an error that is raised is the output."""

    def counted(records):
        accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=0.0)
        engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
        data = {"list": list, "iterator": iter}[given_as](records)
        try:
            answer = engine.aggregate(data, COUNT, COLUMNS, public_partitions=["clinic"])
        except ValueError as error:
            return f"ValueError: {error}"
        accountant.compute_budgets()
        return float(dict(answer)["clinic"].count)

    return {"kind": "PureDP", "epsilon": epsilon}, repeated(counted)


serve(count)
