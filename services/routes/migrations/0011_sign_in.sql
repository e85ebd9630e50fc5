-- What edges have been told of a route's sign-in modules: the form and key of it, and a hash of the columns; null where a version that
-- tells edges these modules in clear wrote the route. Such a version leaves the column as it is, also when it changes a module: what
-- edges have in another form is found by that.
ALTER TABLE https_edge_route ADD COLUMN sign_in_published text;
CREATE INDEX https_edge_route_sign_in ON https_edge_route (id)
    WHERE oauth->'enabled' = 'true' OR oidc->'enabled' = 'true' OR saml->'enabled' = 'true';
