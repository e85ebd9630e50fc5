#include "services/identity/self.h"
#include "common/base/cleanup.h"

#include <errno.h>

int on_self_get(crud_t *crud, const request_t *request, reply_t *reply)
{
    const json_t *credential = json_object_get(request->actor, "credential");
    const char *id = json_string_value(json_object_get(credential, "id"));
    const kind_t *kind = kind_find("api_key");
    _cleanup_(json_clear_ref) json_t *key = NULL;
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = crud_load(crud, kind, request->account, id ? id : "", false, &key);

    if (!r)
        r = pg_exec(crud->pg, &res,
                    "SELECT name, to_char(created_at, 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') "
                    "FROM account WHERE id = $1",
                    1, request->account);
    if (r)
        return r;
    if (PQntuples(res) == 0)
        return ERR_NOT_FOUND;
    reply->body = json_pack(
        "{s:o, s:{s:s, s:s, s:s, s:b, s:b, s:i, s:s, s:b, s:b}, s:O}", "api_key",
        schema_render(kind, key, crud->base_url), "account", "id", request->account, "name",
        PQgetvalue(res, 0, 0), "created_at", PQgetvalue(res, 0, 1), "suspended", 0, "enforce_sso",
        0, "min_api_version", 2, "min_agent_version", "", "user_mfa_required", 0,
        "traffic_full_capture", 0, "user", json_object_get(request->actor, "subject"));
    return reply->body ? 0 : -ENOMEM;
}
