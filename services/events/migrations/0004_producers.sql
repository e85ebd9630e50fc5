-- When a producer was heard for the first time; of those that are there already nobody knows.
ALTER TABLE producer ADD COLUMN since timestamptz NOT NULL DEFAULT now();
CREATE INDEX producer_at ON producer (at);
-- Producers are called edge/worker/start, where a later start has the greater name.
CREATE FUNCTION producer_worker(name text) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT substring(name FROM '^(.*)/[^/]*$') $$;
CREATE INDEX producer_starts ON producer (producer_worker(name), name COLLATE "C");
CREATE FUNCTION producer_edge(name text) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT split_part(name, '/', 1) $$;
CREATE INDEX producer_edges ON producer (producer_edge(name), at);

-- Their rows become part of the one without a name, so that the sums over all rows stay. A sum ends at 2^53, as those of rows do:
-- an edge says itself how many events it dropped. How many rows there were.
CREATE FUNCTION count_together(names text[]) RETURNS bigint LANGUAGE sql SET search_path FROM CURRENT AS $$
    WITH old AS (DELETE FROM producer WHERE name = ANY (names) RETURNING events, lost, dropped),
    sums AS (
        SELECT least(sum(events), 9007199254740992)::bigint AS events, least(sum(lost), 9007199254740992)::bigint AS lost,
               least(sum(dropped), 9007199254740992)::bigint AS dropped, count(*) AS n
        FROM old
    ),
    kept AS (
        INSERT INTO producer AS p (name, last_seq, events, lost, dropped)
        SELECT '', 0, events, lost, dropped FROM sums WHERE n > 0
        ON CONFLICT (name) DO UPDATE SET
            events = least(p.events::numeric + EXCLUDED.events, 9007199254740992)::bigint,
            lost = least(p.lost::numeric + EXCLUDED.lost, 9007199254740992)::bigint,
            dropped = least(p.dropped::numeric + EXCLUDED.dropped, 9007199254740992)::bigint, at = now()
    )
    SELECT n FROM sums
$$;
