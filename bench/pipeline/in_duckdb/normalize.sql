-- samples, polls and run_events, as pipeline/ingest/normalize.py makes them.
CREATE TABLE lines AS FROM read_parquet(getvariable('staging') || '/lines/*.parquet');

CREATE TABLE counted AS
WITH best AS (
    SELECT * FROM lines
    QUALIFY row_number() OVER (
        PARTITION BY cluster_id, session, seq ORDER BY NOT decoded, sha, segment, line) = 1
), beside AS (
    SELECT *, last_value(CASE WHEN kind <> 'run' THEN {'ms': ms, 'later': at_ms - ms} END
        IGNORE NULLS) OVER (PARTITION BY cluster_id, session ORDER BY seq) AS before
    FROM best
)
SELECT * EXCLUDE (before), CASE WHEN kind = 'run' AND ms <= before.ms
    THEN least(ms, at_ms - before.later) ELSE ms END AS own_ms
FROM beside;

CREATE TABLE lost AS FROM lines ANTI JOIN counted USING (cluster_id, session, seq, segment, line);

CREATE TABLE sessions AS
WITH own AS (
    SELECT cluster_id, session, arg_min(at_ms - ms, seq) AS later,
        coalesce(bool_or(program LIKE '% engine'), false) AS of_engine,
        bool_or(kind = 'run') AS of_run
    FROM counted
    GROUP BY cluster_id, session
), looks AS (
    SELECT cluster_id, session, ms,
        coalesce(ms - lag(ms) OVER (PARTITION BY cluster_id, session ORDER BY ms) <= 60000, false)
            AS follows
    FROM counted
    WHERE kind = 'look' AND decoded
), numbered AS (
    SELECT *, count(*) FILTER (NOT follows)
        OVER (PARTITION BY cluster_id, session ORDER BY ms) AS span
    FROM looks
), polled AS (
    SELECT cluster_id, session, min(ms) AS first_ms, max(ms) AS last_ms
    FROM numbered
    GROUP BY cluster_id, session, span
), timed AS (
    SELECT cluster_id, session, of_engine, of_run, min(first_ms) + later AS first_t,
        max(last_ms) + later AS last_t,
        list({'first_t': first_ms + later, 'last_t': last_ms + later}) AS spans
    FROM polled JOIN own USING (cluster_id, session)
    GROUP BY cluster_id, session, of_engine, of_run, later
), covered AS (
    SELECT one.cluster_id, one.session,
        flatten(list([s FOR s IN other.spans IF s.first_t < s.last_t])) AS covered
    FROM timed one JOIN timed other ON one.cluster_id = other.cluster_id
        AND (NOT other.of_engine, NOT other.of_run, other.first_t, other.session)
            < (NOT one.of_engine, NOT one.of_run, one.first_t, one.session)
        AND other.first_t <= one.last_t AND one.first_t <= other.last_t
    GROUP BY one.cluster_id, one.session
)
SELECT cluster_id, session, later, coalesce(covered, []) AS covered
FROM own LEFT JOIN covered USING (cluster_id, session);

CREATE VIEW samples_made AS
SELECT cluster_id, session, seq, ms + later AS t, make_timestamp(t * 1000)::DATE AS date,
    make_timestamp(t * 1000)::TIMESTAMPTZ AS "at", took_ms, topic, topic_id,
    partition, replicas, isr, leader, leader_epoch, adding, removing, offline, elr, described,
    list_transform(
        ends, lambda e: {'broker': e.broker, 'end': e.end, 'read_t': e.read_ms + later}) AS ends,
    log_start, log_start_read_ms + later AS log_start_read_t,
    list_transform(
        sizes, lambda s: {'broker': s.broker, 'bytes': s.bytes, 'read_t': s.read_ms + later}
    ) AS sizes,
    rates, down,
    len(list_filter(covered, lambda c: t BETWEEN c.first_t AND c.last_t)) > 0 AS shadowed,
    ms, segment, line
FROM read_parquet(getvariable('staging') || '/samples/*.parquet')
    JOIN sessions USING (cluster_id, session)
    ANTI JOIN lost USING (cluster_id, session, seq, segment, line);

CREATE TABLE timed AS
SELECT *, own_ms + later AS t, make_timestamp(t * 1000)::DATE AS date,
    make_timestamp(t * 1000)::TIMESTAMPTZ AS "at"
FROM counted JOIN sessions USING (cluster_id, session);

CREATE TABLE polls AS
SELECT cluster_id, date, session, seq, "at", t, took_ms, controller, brokers, alive, reassigning,
    failures, len(list_filter(covered, lambda c: t BETWEEN c.first_t AND c.last_t)) > 0 AS shadowed
FROM timed
WHERE kind = 'look' AND decoded;

CREATE TABLE run_events AS
SELECT cluster_id, date, run, run_id, entry, "at", t,
    coalesce(json_extract_string(event, '$.event'), 'unknown') AS kind, event, session
FROM timed
WHERE kind = 'run'
QUALIFY row_number() OVER (
    PARTITION BY cluster_id, run_id, entry ORDER BY ms + later, session, seq) = 1;
