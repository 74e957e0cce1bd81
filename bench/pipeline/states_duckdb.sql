-- The intervals of pipeline/tables/intervals.py, in DuckDB's SQL.
WITH ordered AS (
    SELECT topic, partition, t, session, seq, adding, isr, described, ends,
        len(adding) > 0 OR len(removing) > 0 AS is_listed,
        coalesce(lag(len(adding) > 0 OR len(removing) > 0) OVER w
            AND t - lag(t) OVER w <= 60000, false) AS follows,
        lead(t) OVER w AS next_t
    FROM read_parquet($samples)
    WHERE NOT shadowed
    WINDOW w AS (PARTITION BY cluster_id, topic, topic_id, partition ORDER BY t, session, seq)
), listed AS (
    SELECT *, count_if(is_listed AND NOT follows) OVER w AS listing
    FROM ordered
    WINDOW w AS (PARTITION BY topic, partition ORDER BY t, session, seq ROWS UNBOUNDED PRECEDING)
), by_broker AS (
    SELECT topic, partition, listing, t, session, seq, described, next_t, adding, isr, ends,
        unnest(list_distinct(adding || list_transform(ends, lambda e: e.broker))) AS broker
    FROM listed
    WHERE is_listed
), read AS (
    SELECT *, list_contains(adding, broker) AND NOT list_contains(isr, broker) AS is_missing,
        list_filter(ends, lambda e: e.broker = broker)[1].end AS an_end
    FROM by_broker
), followed AS (
    SELECT *, last_value(an_end IGNORE NULLS) OVER (
            PARTITION BY topic, partition, listing, broker ORDER BY t, session, seq
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS last_end
    FROM read
), headway AS (
    SELECT topic, partition, listing, t, session, seq, any_value(next_t) AS next_t,
        any_value(described) AS described, count_if(is_missing) AS missing,
        bool_or(is_missing AND an_end IS NOT NULL AND (last_end IS NULL OR an_end > last_end))
            AS headway,
        bool_or(is_missing AND coalesce(an_end, last_end) IS NOT NULL) AS was_read
    FROM followed
    GROUP BY topic, partition, listing, t, session, seq
), stretches AS (
    SELECT *, coalesce(max(CASE WHEN headway THEN t END) OVER w, first_value(t) OVER w)
            AS headway_t,
        count_if(headway OR (described AND missing = 0)) OVER w AS stretch
    FROM headway
    WINDOW w AS (PARTITION BY topic, partition, listing ORDER BY t, session, seq
        ROWS UNBOUNDED PRECEDING)
), judged AS (
    SELECT *, max(CASE WHEN described AND missing > 0 THEN t END)
            OVER (PARTITION BY topic, partition, listing, stretch) - headway_t AS still_ms
    FROM stretches
), stated AS (
    SELECT *, CASE WHEN NOT described THEN NULL WHEN missing = 0 THEN 'in sync'
        WHEN NOT was_read THEN 'adding' WHEN NOT headway AND still_ms >= 30000
            THEN 'stalled'
        ELSE 'catching up' END AS state
    FROM judged
), islands AS (
    SELECT *, count_if(changed) OVER (
            PARTITION BY topic, partition, listing ORDER BY t, session, seq
            ROWS UNBOUNDED PRECEDING) AS island
    FROM (
        SELECT *, lag(state) OVER (PARTITION BY topic, partition, listing
            ORDER BY t, session, seq) IS DISTINCT FROM state AS changed
        FROM stated)
)
SELECT topic, partition, listing, state, min(t) AS began_t,
    max(CASE WHEN next_t - t <= 60000 THEN next_t ELSE t END) AS ended_t,
    bool_or(next_t IS NULL) AS open
FROM islands
WHERE state IS NOT NULL
GROUP BY topic, partition, listing, island, state
