-- Of oidc and saml edges are told something sealed also where they are off.
DROP INDEX https_edge_route_sign_in;
CREATE INDEX https_edge_route_sign_in ON https_edge_route (id)
    WHERE oauth->'enabled' = 'true' OR jsonb_typeof(oidc) = 'object' OR jsonb_typeof(saml) = 'object';
