-- The runs as ktui's own fold of their events describes them, one JSON object each.
CREATE TABLE folds AS FROM read_json(getvariable('folds'), format = 'newline_delimited', columns = {
    'cluster_id': 'VARCHAR', 'run_id': 'VARCHAR', 'run': 'VARCHAR', 'began_t': 'BIGINT',
    'ended_t': 'BIGINT', 'plan': 'VARCHAR', 'version': 'VARCHAR', 'limit_changes': 'BIGINT',
    'objective': 'VARCHAR', 'windows': 'BIGINT', 'kept': 'BIGINT', 'by_t': 'BIGINT',
    'rate_changes': 'BIGINT', 'outcomes': 'MAP(VARCHAR, BIGINT)',
    'partitions': 'STRUCT(topic VARCHAR, "partition" INTEGER, topic_id VARCHAR, outcome VARCHAR,
        original INTEGER[], target INTEGER[], limits VARCHAR, ended_t BIGINT,
        steps STRUCT(batch INTEGER, alters BOOLEAN, elects BOOLEAN, t BIGINT, over_t BIGINT)[],
        waits STRUCT(state VARCHAR, began_t BIGINT, ended_t BIGINT, "open" BOOLEAN)[])[]',
    'rates': 'STRUCT(entry BIGINT, t BIGINT, kind VARCHAR, bytes_s BIGINT,
        brokers STRUCT(broker INTEGER, bytes_s BIGINT)[], chosen_by VARCHAR, in_flight_ms BIGINT,
        objective VARCHAR, figure DOUBLE, reason VARCHAR, windows BIGINT, kept BIGINT,
        ends_at_t BIGINT, late BOOLEAN)[]'
});

CREATE TABLE moved AS
SELECT cluster_id, run, run_id, one.*,
    hash(cluster_id, one.topic, one.topic_id, one.partition) AS p
FROM (SELECT cluster_id, run, run_id, unnest(partitions) AS one FROM folds);

CREATE TABLE steps AS
SELECT cluster_id, run, run_id, topic, partition, p, step.*
FROM (SELECT cluster_id, run, run_id, topic, partition, p, unnest(steps) AS step FROM moved);

CREATE TABLE batches AS
SELECT *, make_timestamp(began_t * 1000)::TIMESTAMPTZ AS began,
    make_timestamp(ended_t * 1000)::TIMESTAMPTZ AS ended
FROM (SELECT cluster_id, run, run_id, batch, min(t) AS began_t,
    CASE WHEN bool_and(over_t IS NOT NULL) THEN max(over_t) END AS ended_t,
    count(DISTINCT (topic, partition)) AS partitions, count(*) AS steps,
    count_if(alters) AS alters, count_if(elects) AS elections
FROM steps
GROUP BY cluster_id, run, run_id, batch);

CREATE TABLE runs AS
SELECT cluster_id, run, run_id, make_timestamp(began_t * 1000)::TIMESTAMPTZ AS began,
    make_timestamp(ended_t * 1000)::TIMESTAMPTZ AS ended, began_t, ended_t,
    coalesce(list_sum(map_values(outcomes)), 0)::BIGINT AS partitions, outcomes,
    coalesce(batches, 0) AS batches, coalesce(steps, 0) AS steps, limit_changes, objective,
    windows, kept, make_timestamp(by_t * 1000)::TIMESTAMPTZ AS "by", by_t,
    ended_t - by_t AS late_ms, rate_changes, plan, version
FROM folds LEFT JOIN (
    SELECT cluster_id, run_id, count(DISTINCT batch) AS batches, count(*) AS steps
    FROM steps
    GROUP BY cluster_id, run_id) USING (cluster_id, run_id);

CREATE TABLE rates AS
SELECT cluster_id, run, run_id, entry, make_timestamp(t * 1000)::TIMESTAMPTZ AS "at",
    make_timestamp(ends_at_t * 1000)::TIMESTAMPTZ AS ends_at, * EXCLUDE (ends_at_t)
FROM (
    SELECT cluster_id, run, run_id, rate.*
    FROM (SELECT cluster_id, run, run_id, unnest(rates) AS rate FROM folds));
