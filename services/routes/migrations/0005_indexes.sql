-- Which agent serves a name: asked for every hostport of an edge.
CREATE INDEX tunnel_url ON tunnel (public_url) WHERE public_url <> '';

-- Who has a hostport, pooling or not: the two partial indexes answer only half of that question each.
CREATE INDEX endpoint_of_hostport ON endpoint (hostport);
DROP INDEX endpoint_pool;
