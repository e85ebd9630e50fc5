-- Sets up Postern's database: one role for each service with a database, which owns the schema of the service's name and has no rights
-- in the others. Run it on a database for Postern alone, as a superuser, or as a role that owns the database and may create roles:
--
--     export POSTERN_ROUTES_PASSWORD=… POSTERN_IDENTITY_PASSWORD=… # and so on: the passwords that the list below names
--     psql -X -f deploy/database.sql "$DATABASE_URL"
--
-- The roles are <database>_routes, <database>_identity and so on, because roles are shared by all databases of a server. The script may
-- be run any number of times, also beside running services, and converts a database of an older Postern, which had a single owner.
\set ON_ERROR_STOP on
\set QUIET on
\o /dev/null
BEGIN;
SET LOCAL client_min_messages = warning;
SET LOCAL password_encryption = 'scram-sha-256';
SET LOCAL search_path = pg_catalog;
SELECT pg_advisory_xact_lock(7463001); -- no service migrates meanwhile (common/store/migrate.c)
-- The services and their passwords. If a variable is not set, the line that uses it fails.
SELECT set_config('postern.passwords', '{}', true);
-- services: passwords
\getenv routes POSTERN_ROUTES_PASSWORD
SELECT set_config('postern.passwords', (current_setting('postern.passwords')::jsonb || jsonb_build_object('routes', :'routes'))::text, true);
\getenv identity POSTERN_IDENTITY_PASSWORD
SELECT set_config('postern.passwords', (current_setting('postern.passwords')::jsonb || jsonb_build_object('identity', :'identity'))::text, true);
\getenv events POSTERN_EVENTS_PASSWORD
SELECT set_config('postern.passwords', (current_setting('postern.passwords')::jsonb || jsonb_build_object('events', :'events'))::text, true);
-- services end

DO $$
DECLARE
    passwords jsonb := current_setting('postern.passwords')::jsonb;
    is_super  boolean := (SELECT rolsuper FROM pg_roles WHERE rolname = current_user);
    service   text;
    secret    text;
    service_role text;
    -- so that no role takes the connections of the others: three copies of a service, twice while they are replaced, are fewer
    share     int := (current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int) / 3 - 1;
BEGIN
    FOR service, secret IN SELECT * FROM jsonb_each_text(passwords) LOOP
        service_role := current_database() || '_' || service;
        IF length(secret) < 16 THEN
            RAISE EXCEPTION 'the password of % must have 16 characters at least', service_role;
        END IF;
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = service_role) THEN
            EXECUTE format('CREATE ROLE %I NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS', service_role);
        ELSIF EXISTS (SELECT FROM pg_roles WHERE rolname = service_role
                      AND (rolsuper OR rolcreatedb OR rolcreaterole OR rolreplication OR rolbypassrls)) THEN
            RAISE EXCEPTION 'role % may do more than a service should: alter it, or drop it', service_role;
        END IF;
        EXECUTE format('ALTER ROLE %I LOGIN CONNECTION LIMIT %s PASSWORD %L', service_role, greatest(share, 8), secret);
        IF NOT is_super THEN -- to make it an owner
            EXECUTE format('GRANT %I TO CURRENT_USER', service_role);
        END IF;
    END LOOP;
END
$$;

-- Owners. Only wrong owners are changed: ALTER would wait for every transaction that reads the object.
DO $$
DECLARE
    service      text;
    service_role text;
    change       text;
BEGIN
    FOR service IN SELECT jsonb_object_keys(current_setting('postern.passwords')::jsonb) LOOP
        service_role := current_database() || '_' || service;
        IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = service) THEN
            EXECUTE format('CREATE SCHEMA %I AUTHORIZATION %I', service, service_role);
        END IF;
        FOR change IN
            SELECT format('ALTER SCHEMA %I OWNER TO %I', nspname, service_role) FROM pg_namespace
            WHERE nspname = service AND pg_get_userbyid(nspowner) <> service_role
            UNION ALL -- the sequence of a column follows its table
            SELECT format('ALTER %s %s OWNER TO %I',
                          CASE relkind WHEN 'S' THEN 'SEQUENCE' WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE 'TABLE' END,
                          c.oid::regclass, service_role)
            FROM pg_class c WHERE relnamespace = service::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'S')
            AND pg_get_userbyid(relowner) <> service_role
            AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
                            AND d.refclassid = 'pg_class'::regclass AND d.refobjsubid > 0 AND d.deptype IN ('a', 'i'))
            UNION ALL
            SELECT format('ALTER ROUTINE %s OWNER TO %I', p.oid::regprocedure, service_role)
            FROM pg_proc p WHERE pronamespace = service::regnamespace AND pg_get_userbyid(proowner) <> service_role
            UNION ALL -- not the types of tables and of arrays, which follow
            SELECT format('ALTER TYPE %s OWNER TO %I', t.oid::regtype, service_role)
            FROM pg_type t WHERE typnamespace = service::regnamespace AND typtype IN ('d', 'e', 'r')
            AND pg_get_userbyid(typowner) <> service_role
        LOOP
            EXECUTE change;
        END LOOP;
    END LOOP;
END
$$;

-- Privileges: only owners have any.
DO $$
DECLARE
    services text[] := ARRAY(SELECT jsonb_object_keys(current_setting('postern.passwords')::jsonb));
    service  text;
    other    text;
    other_role text;
BEGIN
    EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
    IF EXISTS (SELECT FROM pg_namespace WHERE nspname = 'public' AND pg_has_role(nspowner, 'USAGE')) THEN
        REVOKE ALL ON SCHEMA public FROM PUBLIC;
    END IF;
    FOREACH other IN ARRAY services LOOP
        other_role := current_database() || '_' || other;
        EXECUTE format('REVOKE ALL ON DATABASE %I FROM %I', current_database(), other_role);
        EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), other_role);
        FOREACH service IN ARRAY services LOOP
            EXECUTE format('REVOKE ALL ON SCHEMA %I FROM PUBLIC', service);
            IF service <> other THEN
                EXECUTE format('REVOKE ALL ON SCHEMA %I FROM %I', service, other_role);
                IF EXISTS (SELECT FROM pg_auth_members WHERE pg_get_userbyid(member) = other_role
                           AND pg_get_userbyid(roleid) = current_database() || '_' || service) THEN
                    EXECUTE format('REVOKE %I FROM %I', current_database() || '_' || service, other_role);
                END IF;
            END IF;
        END LOOP;
    END LOOP;
END
$$;
COMMIT;
