/* sign_in_module.gone: which modules that signed somebody in are there no more, or have cookies of
 * other names, or not the host of before. postern-identity asks for the sake of its sessions,
 * whenever it comes to it: no deletion and no change has to be told. */
#include "common/base/cleanup.h"
#include "common/schema/sign_in_digest.h"
#include "services/routes/rules.h"

#include <errno.h>
#include <string.h>

enum { PLACES_MAX = 1000, PLACE_MAX = 600 };

static int check_places(const json_t *places, problem_t *problem)
{
    const json_t *place;
    size_t i;

    if (!json_is_array(places) || json_array_size(places) > PLACES_MAX)
        return problem_add(problem, ERR_INVALID_FIELD, "places",
                           "must be a list of at most %d places", PLACES_MAX);
    json_array_foreach(places, i, place)
    {
        if (!json_is_string(place) || json_string_length(place) > PLACE_MAX)
            return problem_add(problem, ERR_INVALID_FIELD, "places",
                               "each must be a text of at most %d bytes", PLACE_MAX);
    }
    return 0;
}

/* Of each place whether it is gone, and the revision of its module; 0: there is none, or it has
 * none. A module that is off is there; one that was deleted and put again is another one. A place
 * without a prefix, or a host, is of a version that did not note it. Of an edge's wildcards one
 * covers a host, as edges have it: that behind its first dot (table/names.h). */
static int find_places(crud_t *crud, const char *places, PGresult **ret_res)
{
    return pg_exec(crud->pg, ret_res,
                   "SELECT jsonb_typeof(m.document) IS DISTINCT FROM 'object' "
                   "OR coalesce(m.document->>'made_id', '') <> p.made OR (p.prefix > '' "
                   "     AND p.prefix <> coalesce(nullif(m.document->>'cookie_prefix', ''), $2)) "
                   "OR (p.host > '' AND NOT e.hostports ?| ARRAY[p.host || ':443', "
                   "     regexp_replace(p.host, '^[^.]*', '*') || ':443']), "
                   "CASE WHEN coalesce(m.document->>'made_id', '') = p.made "
                   "     THEN coalesce((m.document->>'revision')::bigint, 0) ELSE 0 END "
                   "FROM (SELECT at, split_part(place, ' ', 1) AS route, "
                   "     split_part(place, ' ', 2) AS module, split_part(place, ' ', 3) AS made, "
                   "     split_part(place, ' ', 4) AS prefix, split_part(place, ' ', 5) AS host "
                   "     FROM jsonb_array_elements_text($1::jsonb) WITH ORDINALITY AS one "
                   "     (place, at)) p LEFT JOIN https_edge_route r ON r.id = p.route "
                   "LEFT JOIN https_edge e ON e.id = r.edge_id "
                   "CROSS JOIN LATERAL (SELECT CASE p.module WHEN 'oauth' THEN r.oauth "
                   "     WHEN 'oidc' THEN r.oidc WHEN 'saml' THEN r.saml END AS document) m "
                   "ORDER BY p.at",
                   2, places, SIGN_IN_PREFIX);
}

int on_sign_in_module_gone(crud_t *crud, const request_t *request, reply_t *reply)
{
    const json_t *places = json_object_get(request->body, "places");
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    _cleanup_(json_clear_ref) json_t *gone = json_array();
    _cleanup_(json_clear_ref) json_t *revisions = json_array();
    _cleanup_(free_mem) char *text = NULL;
    int r = check_places(places, &reply->problem);

    if (r)
        return r;
    /* A replica may not have heard of a route yet, and what is said to be gone ends for good. */
    if (pg_is_read_only())
        return ERR_MAINTENANCE;
    text = json_dumps(places, JSON_COMPACT);
    if (!text)
        return -ENOMEM;
    r = find_places(crud, text, &res);
    for (int i = 0; !r && i < PQntuples(res); i++) {
        if (*PQgetvalue(res, i, 0) == 't')
            json_array_append_new(gone, json_integer(i));
        json_array_append_new(revisions, json_integer(strtoll(PQgetvalue(res, i, 1), NULL, 10)));
    }
    if (!r)
        reply->body = json_pack("{s:O, s:O}", "gone", gone, "revisions", revisions);
    return r ? r : reply->body ? 0 : -ENOMEM;
}
