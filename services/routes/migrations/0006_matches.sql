-- Which requests a route is for, in one spelling: a host alone and the host with "/" are the same. The same match twice
-- in one edge would be two routes of which only one can serve. Rows that were there before and share a place keep it (the
-- oldest; edges serve that one), and place stays null in the others until one of them is given another match.
ALTER TABLE https_edge_route ADD COLUMN place text COLLATE "C";

CREATE FUNCTION https_edge_route_place(match text, match_type text) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT match_type || ' ' || lower(split_part(match, '/', 1))
       || CASE WHEN strpos(match, '/') = 0 THEN '/' ELSE substr(match, strpos(match, '/')) END $$;

UPDATE https_edge_route r SET place = https_edge_route_place(r.match, r.match_type)
    WHERE NOT EXISTS (SELECT 1 FROM https_edge_route o WHERE o.edge_id = r.edge_id AND o.id < r.id
        AND https_edge_route_place(o.match, o.match_type) = https_edge_route_place(r.match, r.match_type));

CREATE UNIQUE INDEX https_edge_route_place ON https_edge_route (edge_id, place);

CREATE FUNCTION place_https_edge_route() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' OR (NEW.edge_id, NEW.match, NEW.match_type) IS DISTINCT FROM (OLD.edge_id, OLD.match, OLD.match_type) THEN
        NEW.place := https_edge_route_place(NEW.match, NEW.match_type);
    ELSE
        NEW.place := OLD.place;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER place_https_edge_route BEFORE INSERT OR UPDATE ON https_edge_route
    FOR EACH ROW EXECUTE FUNCTION place_https_edge_route();
