-- The tables states, moves and brokers.
CREATE TABLE states AS
WITH numbered AS (
    SELECT *, row_number() OVER () AS id FROM intervals
), under_way AS (
    SELECT id, min((-t, run_id, run)) AS latest
    FROM numbered JOIN steps USING (p)
    WHERE t <= began_t AND coalesce(over_t >= began_t, true)
    GROUP BY id
), of_listings AS (
    SELECT cluster_id, topic, topic_id, partition, latest[3] AS run, latest[2] AS run_id, state,
        began_t, ended_t, open
    FROM numbered JOIN listings USING (p, listing) LEFT JOIN under_way USING (id)
), waits AS (
    SELECT cluster_id, topic, topic_id, partition, run, run_id, wait.*
    FROM (SELECT * EXCLUDE (waits), unnest(waits) AS wait FROM moved)
)
SELECT *, make_timestamp(began_t * 1000)::TIMESTAMPTZ AS began,
    make_timestamp(ended_t * 1000)::TIMESTAMPTZ AS ended,
    make_timestamp(began_t * 1000)::DATE AS date
FROM (FROM of_listings UNION ALL BY NAME FROM waits);

CREATE TABLE moves AS
WITH under_way AS (
    SELECT p, listing, min((-t, run_id, run)) AS latest
    FROM listings JOIN steps USING (p)
    WHERE t <= listing_t AND coalesce(over_t >= listing_t, true)
    GROUP BY p, listing
), named AS (
    SELECT *, latest[2] AS run_id, CASE WHEN latest IS NULL THEN listing END AS alone
    FROM listings LEFT JOIN under_way USING (p, listing)
), added AS (
    SELECT p, listing, broker, arg_max(an_end, n) AS an_end, arg_max(bytes, n) AS bytes,
        min(throttle) FILTER (is_adding) AS throttle_min,
        max(throttle) FILTER (is_adding) AS throttle_max
    FROM by_broker
    GROUP BY p, listing, broker
    HAVING bool_or(is_adding)
), copied AS (
    SELECT p, listing, list(broker) AS added, min(throttle_min) AS throttle_min,
        max(throttle_max) AS throttle_max,
        sum(greatest(an_end - log_start, 0))
            FILTER (an_end IS NOT NULL AND log_start IS NOT NULL) AS messages,
        sum(CASE WHEN list_contains(last.isr, broker) OR (last.next_t - last.t <= 60000
                AND list_contains(last.next_isr, broker)) THEN greatest(bytes, led)
            ELSE bytes END) AS bytes
    FROM added JOIN listings USING (p, listing)
    GROUP BY p, listing
), seen AS (
    SELECT p, run_id, alone, sum(looks) AS looks, any_value(first) AS first,
        any_value(last) AS last, any_value(cluster_id) AS cluster_id, any_value(topic) AS topic,
        any_value(topic_id) AS topic_id, any_value(partition) AS partition,
        list_sort(list_distinct(flatten(list(added)))) AS added, sum(messages) AS messages,
        sum(bytes) AS bytes, min(throttle_min) AS throttle_min, max(throttle_max) AS throttle_max
    FROM named LEFT JOIN copied USING (p, listing)
    GROUP BY p, run_id, alone
), lengths AS (
    SELECT p, run_id, alone, count_if(state = 'stalled') AS stalls,
        sum(ended_t - began_t) FILTER (state = 'stalled') AS stalled_ms,
        sum(ended_t - began_t) FILTER (state = 'catching up') AS catching_up_ms,
        sum(ended_t - began_t) FILTER (state = 'in sync') AS in_sync_ms,
        sum(ended_t - began_t) FILTER (state = 'adding') AS adding_ms
    FROM intervals JOIN named USING (p, listing)
    GROUP BY p, run_id, alone
), quantiles AS (
    SELECT p, run_id, alone,
        quantile_cont(messages * 1000 / ms, [0.1, 0.5, 0.9]) AS messages_s,
        quantile_cont(messages * 1000 / ms * message_bytes, [0.1, 0.5, 0.9]) AS bytes_s
    FROM pairs JOIN named USING (p, listing)
    GROUP BY p, run_id, alone
), measured AS (
    SELECT seen.*, stalls, stalled_ms, catching_up_ms, in_sync_ms, adding_ms, messages_s, bytes_s
    FROM seen
        LEFT JOIN lengths ON seen.p = lengths.p AND seen.run_id IS NOT DISTINCT FROM lengths.run_id
            AND seen.alone IS NOT DISTINCT FROM lengths.alone
        LEFT JOIN quantiles ON seen.p = quantiles.p
            AND seen.run_id IS NOT DISTINCT FROM quantiles.run_id
            AND seen.alone IS NOT DISTINCT FROM quantiles.alone
), of_runs AS (
    SELECT cluster_id, topic, topic_id, partition, run, run_id, steps[1].t AS began_t, ended_t,
        outcome, len(steps) AS steps, steps[1].batch AS batch, limits, original, target, p
    FROM moved
    WHERE len(steps) > 0
), of_others AS (
    SELECT *, first.t AS began_t, 1 AS steps,
        coalesce(last.next_t - last.t <= 60000, false) AS followed,
        CASE WHEN followed THEN last.next_t END AS ended_t,
        list_filter(first.replicas, lambda r: NOT list_contains(first.adding, r)) AS original,
        list_filter(last.replicas, lambda r: NOT list_contains(last.removing, r)) AS target,
        CASE WHEN NOT followed THEN 'unknown' WHEN last.next_replicas = target THEN 'done'
            WHEN list_sort(last.next_replicas) = list_sort(original) THEN 'cancelled'
            ELSE 'changed_elsewhere' END AS outcome
    FROM measured
    WHERE run_id IS NULL
), whole AS (
    SELECT of_runs.* EXCLUDE (p), measured.* EXCLUDE (
        p, run_id, alone, first, last, cluster_id, topic, topic_id, partition)
    FROM of_runs LEFT JOIN measured USING (p, run_id)
    UNION ALL BY NAME
    SELECT * EXCLUDE (p, alone, first, last, followed) FROM of_others
)
SELECT cluster_id, topic, topic_id, partition, run, run_id,
    make_timestamp(began_t * 1000)::TIMESTAMPTZ AS began,
    make_timestamp(ended_t * 1000)::TIMESTAMPTZ AS ended, began_t, ended_t, outcome, steps, batch,
    limits, original, target, coalesce(added, []) AS added, messages::BIGINT AS messages,
    bytes::BIGINT AS bytes, messages_s[1] AS rate_messages_p10, messages_s[2] AS rate_messages_p50,
    messages_s[3] AS rate_messages_p90, bytes_s[1] AS rate_bytes_p10, bytes_s[2] AS rate_bytes_p50,
    bytes_s[3] AS rate_bytes_p90,
    CASE WHEN looks > 0 THEN coalesce(stalls, 0) END AS stalls,
    CASE WHEN looks > 0 THEN coalesce(stalled_ms, 0)::BIGINT END AS stalled_ms,
    CASE WHEN looks > 0 THEN coalesce(catching_up_ms, 0)::BIGINT END AS catching_up_ms,
    CASE WHEN looks > 0 THEN coalesce(in_sync_ms, 0)::BIGINT END AS in_sync_ms,
    CASE WHEN looks > 0 THEN coalesce(adding_ms, 0)::BIGINT END AS adding_ms, throttle_min, throttle_max, coalesce(looks, 0)::BIGINT AS looks
FROM whole;

CREATE TABLE brokers AS
WITH copies AS (
    SELECT cluster_id, read_t - read_t % 60000 AS minute_t, broker, leader, messages,
        floor(messages * message_bytes + 0.5)::BIGINT AS bytes
    FROM pairs JOIN listings USING (p, listing)
), polled AS (
    SELECT cluster_id, t - t % 60000 AS minute_t, broker, count(*) AS adding
    FROM (SELECT cluster_id, session, seq, t, unnest(adding) AS broker FROM listed)
    GROUP BY cluster_id, session, seq, t, broker
), throttled AS (
    SELECT cluster_id, t - t % 60000 AS minute_t, rate.broker AS broker,
        max(rate.follower) AS follower_throttle
    FROM (SELECT cluster_id, t, unnest(rates) AS rate FROM samples WHERE NOT shadowed)
    WHERE rate.follower IS NOT NULL
    GROUP BY ALL
), facts AS (
    SELECT cluster_id, broker, minute_t, sum(bytes) AS bytes_in, sum(messages) AS messages_in
    FROM copies GROUP BY ALL
    UNION ALL BY NAME
    SELECT cluster_id, leader AS broker, minute_t, sum(bytes) AS bytes_out,
        sum(messages) AS messages_out
    FROM copies WHERE leader IS NOT NULL GROUP BY ALL
    UNION ALL BY NAME FROM throttled
    UNION ALL BY NAME
    SELECT cluster_id, broker, minute_t, max(adding) AS adding FROM polled GROUP BY ALL
)
SELECT cluster_id, broker, make_timestamp(minute_t * 1000)::TIMESTAMPTZ AS minute,
    sum(bytes_in)::BIGINT AS bytes_in, sum(bytes_out)::BIGINT AS bytes_out,
    sum(messages_in)::BIGINT AS messages_in, sum(messages_out)::BIGINT AS messages_out,
    max(follower_throttle) AS follower_throttle, coalesce(max(adding), 0) AS adding
FROM facts
GROUP BY cluster_id, broker, minute_t;
