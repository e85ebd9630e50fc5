-- How many bytes of configuration an account has at the edges: those of its entries in the config log, as they are kept there. Every
-- change of the log holds the lock of its head, so one is counted after the other, and no two pass the bound together.
CREATE TABLE config_bytes (
    account_id text PRIMARY KEY,
    n          bigint NOT NULL
) WITH (fillfactor = 50);

-- Whose entry it is, also when its object is gone; NULL: the operator's.
ALTER TABLE config_entry ADD COLUMN account_id text;
UPDATE config_entry e SET account_id = o.account_id FROM object o WHERE o.id = e.id;
INSERT INTO config_bytes
    SELECT account_id, sum(length(doc)) FROM config_entry WHERE account_id IS NOT NULL AND doc IS NOT NULL GROUP BY account_id;

CREATE FUNCTION own_config() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    NEW.account_id := (SELECT account_id FROM object WHERE id = NEW.id);
    RETURN NEW;
END
$$;
CREATE TRIGGER own_config BEFORE INSERT ON config_entry FOR EACH ROW EXECUTE FUNCTION own_config();

-- A request of the API says in postern.config_limit how many bytes its account may have; who says nothing is not bound.
CREATE FUNCTION count_config() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    more  bigint := coalesce(length(NEW.doc), 0);
    most  bigint := nullif(current_setting('postern.config_limit', true), '')::bigint;
    total bigint;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        more := more - coalesce(length(OLD.doc), 0);
    END IF;
    IF NEW.account_id IS NULL OR more = 0 THEN
        RETURN NULL;
    END IF;
    INSERT INTO config_bytes AS c VALUES (NEW.account_id, more)
        ON CONFLICT (account_id) DO UPDATE SET n = c.n + more RETURNING c.n INTO total;
    IF more > 0 AND total > most THEN
        RAISE EXCEPTION 'the account has its bytes' USING ERRCODE = 'check_violation', CONSTRAINT = 'config_bytes';
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER count_config AFTER INSERT OR UPDATE OF doc ON config_entry FOR EACH ROW EXECUTE FUNCTION count_config();
