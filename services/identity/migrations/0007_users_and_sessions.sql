-- What lists of users and sessions are filtered by. Filters compare in collation C (common/resource/filter.c), and pages go by id.
CREATE INDEX application_user_by_provider ON application_user (account_id, (identity_provider ->> 'name') COLLATE "C", id);
CREATE INDEX application_user_by_provider_url ON application_user (account_id, (identity_provider ->> 'url') COLLATE "C", id);
CREATE INDEX application_user_by_provider_id ON application_user (account_id, provider_user_id COLLATE "C", id);
CREATE INDEX application_user_by_username ON application_user (account_id, username COLLATE "C", id);
CREATE INDEX application_user_by_email ON application_user (account_id, email COLLATE "C", id);
CREATE INDEX application_user_by_name ON application_user (account_id, name COLLATE "C", id);
CREATE INDEX application_session_by_user ON application_session (account_id, application_user_id COLLATE "C", id);
CREATE INDEX application_session_by_edge ON application_session (account_id, edge_id COLLATE "C", id);
CREATE INDEX application_session_by_route ON application_session (account_id, route_id COLLATE "C", id);
CREATE INDEX application_session_by_endpoint ON application_session (account_id, endpoint_id COLLATE "C", id) WHERE endpoint_id IS NOT NULL;
CREATE INDEX application_session_by_end ON application_session (expires_at);

-- The API's field endpoints of a user. Its cost keeps PostgreSQL from asking for it of rows beyond the page.
CREATE FUNCTION application_user_endpoints(u application_user) RETURNS jsonb LANGUAGE sql STABLE COST 10000 SET search_path FROM CURRENT AS $$
    SELECT coalesce(jsonb_agg(to_jsonb(e) ORDER BY e.last_active DESC, e.public_url, e.route_id), '[]') FROM (
        SELECT public_url, endpoint_id, edge_id, route_id, max(last_active) AS last_active FROM (
            SELECT public_url, endpoint_id, edge_id, route_id, last_active FROM application_session
            WHERE account_id = u.account_id AND application_user_id COLLATE "C" = u.id AND expires_at > now()
            ORDER BY id DESC LIMIT 200) newest
        GROUP BY public_url, endpoint_id, edge_id, route_id
        ORDER BY max(last_active) DESC, public_url, route_id LIMIT 20) e
$$;
