-- Which agent serves a name: asked for every hostport of an edge.
CREATE INDEX tunnel_url ON tunnel (public_url) WHERE public_url <> '';
