-- How many objects of a kind an account has, counted as they come and go. Several rows each, so that
-- connections that create at once do not wait for one another.
CREATE TABLE object_count (
    account_id text NOT NULL,
    kind       text NOT NULL,
    shard      integer NOT NULL,
    n          bigint NOT NULL,
    PRIMARY KEY (account_id, kind, shard)
) WITH (fillfactor = 50);

CREATE FUNCTION count_object() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO object_count VALUES (NEW.account_id, NEW.kind, pg_backend_pid() % 16, 1)
        ON CONFLICT (account_id, kind, shard) DO UPDATE SET n = object_count.n + 1;
        RETURN NEW;
    END IF;
    INSERT INTO object_count VALUES (OLD.account_id, OLD.kind, pg_backend_pid() % 16, -1)
    ON CONFLICT (account_id, kind, shard) DO UPDATE SET n = object_count.n - 1;
    RETURN OLD;
END
$$;

INSERT INTO object_count SELECT account_id, kind, 0, count(*) FROM object GROUP BY account_id, kind;
CREATE TRIGGER count_object AFTER INSERT OR DELETE ON object FOR EACH ROW EXECUTE FUNCTION count_object();
