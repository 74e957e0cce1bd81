-- What pipeline/tables/listings.py, intervals.py and measures.py compute. `p` stands for a
-- partition and `n` counts its samples, so that later steps need not compare the four names.
CREATE TABLE listed AS
WITH ordered AS (
    SELECT cluster_id, topic, topic_id, partition, session, seq, t, replicas, isr, leader, adding,
        removing, described, ends, log_start, sizes, rates,
        hash(cluster_id, topic, topic_id, partition) AS p,
        len(adding) > 0 OR len(removing) > 0 AS is_listed,
        coalesce(lag(len(adding) > 0 OR len(removing) > 0) OVER w
            AND t - lag(t) OVER w <= 60000, false) AS follows,
        lead(t) OVER w AS next_t, lead(replicas) OVER w AS next_replicas,
        lead(isr) OVER w AS next_isr, row_number() OVER w AS n
    FROM samples
    WHERE NOT shadowed
    WINDOW w AS (
        PARTITION BY hash(cluster_id, topic, topic_id, partition) ORDER BY t, session, seq)
)
SELECT * EXCLUDE (is_listed, follows),
    count(*) FILTER (NOT follows) OVER w AS listing, max(t) FILTER (NOT follows) OVER w AS listing_t
FROM ordered
WHERE is_listed
WINDOW w AS (PARTITION BY p ORDER BY n ROWS UNBOUNDED PRECEDING);

CREATE TABLE by_broker AS
WITH repeated AS (
    SELECT * EXCLUDE (replicas, removing, next_replicas, next_isr),
        [e.broker FOR e IN ends] AS read_at, [s.broker FOR s IN sizes] AS sized_at,
        unnest(CASE WHEN len(adding) + len(ends) + len(sizes) = 0 THEN [NULL]
            ELSE list_distinct(adding || read_at || sized_at) END) AS broker
    FROM listed
), looked_up AS (
    SELECT p, n, listing, t, next_t, described, broker, leader, log_start,
        list_position(read_at, broker) AS nth, ends[nth].end AS an_end,
        ends[nth].read_t AS read_t, broker IS NOT NULL AND list_contains(adding, broker) AS is_adding,
        is_adding AND NOT list_contains(isr, broker) AS is_missing,
        sizes[list_position(sized_at, broker)].bytes AS bytes,
        ends[list_position(read_at, leader)].end - log_start AS held,
        sizes[list_position(sized_at, leader)].bytes AS led,
        rates[list_position([r.broker FOR r IN rates], broker)].follower AS throttle
    FROM repeated
)
SELECT * EXCLUDE (nth), last_value(
        CASE WHEN an_end IS NOT NULL
            THEN {'end': an_end, 'read_t': read_t, 'is_adding': is_adding} END IGNORE NULLS
    ) OVER (PARTITION BY p, listing, broker ORDER BY n
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS last
FROM looked_up;

CREATE TABLE listings AS
SELECT p, listing, any_value(cluster_id) AS cluster_id, any_value(topic) AS topic,
    any_value(topic_id) AS topic_id, any_value(partition) AS partition,
    any_value(listing_t) AS listing_t, count(*) AS looks,
    arg_min({'t': t, 'replicas': replicas, 'adding': adding}, n) AS first,
    arg_max({'t': t, 'replicas': replicas, 'removing': removing, 'isr': isr, 'next_t': next_t,
        'next_replicas': next_replicas, 'next_isr': next_isr}, n) AS last,
    arg_min(log_start, n) AS log_start,
    arg_max(sizes[list_position([s.broker FOR s IN sizes], leader)].bytes, n) AS led
FROM listed
GROUP BY p, listing;

CREATE TABLE intervals AS
WITH headway AS (
    SELECT p, listing, n, any_value(t) AS t, any_value(next_t) AS next_t,
        any_value(described) AS described, count_if(is_missing) AS missing,
        bool_or(is_missing AND an_end IS NOT NULL AND (last IS NULL OR an_end > last.end))
            AS headway,
        bool_or(is_missing AND coalesce(an_end, last.end) IS NOT NULL) AS was_read
    FROM by_broker
    GROUP BY p, listing, n
), stretches AS (
    SELECT *, coalesce(max(CASE WHEN headway THEN t END) OVER w, first_value(t) OVER w)
            AS headway_t,
        count_if(headway OR (described AND missing = 0)) OVER w AS stretch
    FROM headway
    WINDOW w AS (PARTITION BY p, listing ORDER BY n
        ROWS UNBOUNDED PRECEDING)
), judged AS (
    SELECT *, max(CASE WHEN described AND missing > 0 THEN t END)
            OVER (PARTITION BY p, listing, stretch) - headway_t AS still_ms
    FROM stretches
), stated AS (
    SELECT *, CASE WHEN NOT described THEN NULL WHEN missing = 0 THEN 'in sync'
        WHEN NOT was_read THEN 'adding' WHEN NOT headway AND still_ms >= 30000
            THEN 'stalled'
        ELSE 'catching up' END AS state
    FROM judged
), islands AS (
    SELECT *, count_if(changed) OVER (
            PARTITION BY p, listing ORDER BY n ROWS UNBOUNDED PRECEDING) AS island
    FROM (
        SELECT *, lag(state) OVER (PARTITION BY p, listing ORDER BY n) IS DISTINCT FROM state
            AS changed
        FROM stated)
)
SELECT p, listing, state, min(t) AS began_t,
    max(CASE WHEN next_t - t <= 60000 THEN next_t ELSE t END) AS ended_t,
    bool_or(next_t IS NULL) AS open
FROM islands
WHERE state IS NOT NULL
GROUP BY p, listing, island, state;

CREATE TABLE pairs AS
SELECT p, listing, broker, leader, read_t, an_end - last.end AS messages,
    read_t - last.read_t AS ms, CASE WHEN held > 0 THEN led / held END AS message_bytes
FROM by_broker
WHERE an_end IS NOT NULL AND is_adding AND last.is_adding
    AND (log_start IS NULL OR last.end >= log_start)
    AND an_end >= last.end AND read_t - last.read_t BETWEEN 1 AND 60000;
