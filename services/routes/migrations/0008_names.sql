-- Who holds a name, on the whole server: what one account holds nobody else can take, narrow or shadow. A wildcard holds all
-- that is below it; an agent ingress holds its domain and all that is below that.
CREATE TABLE name_claim (
    name       text COLLATE "C" NOT NULL,
    account_id text NOT NULL,
    owner_id   text COLLATE "C" NOT NULL REFERENCES object ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    PRIMARY KEY (name, owner_id)
);
CREATE INDEX name_claim_owner ON name_claim (owner_id);
CREATE INDEX name_claim_below ON name_claim (reverse(name));

-- Of what is there already and overlaps between accounts the older one holds the name. The other stays as it is and serves what it
-- serves, but gets no hostport any more. Ids begin with the time.
WITH held AS (
    SELECT domain AS name, account_id, id AS owner_id, right(id, 27) AS at FROM reserved_domain
    UNION ALL
    SELECT n.name, i.account_id, i.id, right(i.id, 27) FROM agent_ingress i,
        LATERAL (SELECT i.domain AS name UNION SELECT '*.' || i.domain WHERE left(i.domain, 2) <> '*.') n
), covered AS (
    SELECT h.*, h.name AS cover FROM held h
    UNION
    SELECT h.*, '*.' || array_to_string(l.labels[g.i:], '.') FROM held h,
        LATERAL (SELECT string_to_array(h.name, '.') AS labels) l,
        LATERAL generate_series(2, array_length(l.labels, 1)) g(i)
), losers AS (
    SELECT CASE WHEN c.at > h.at THEN c.owner_id ELSE h.owner_id END AS owner_id
    FROM covered c JOIN held h ON h.name = c.cover AND h.account_id <> c.account_id
)
INSERT INTO name_claim SELECT name, account_id, owner_id FROM held WHERE owner_id NOT IN (SELECT owner_id FROM losers);
