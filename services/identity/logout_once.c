#include "services/identity/logout_once.h"
#include "common/base/cleanup.h"

#include <inttypes.h>
#include <stdio.h>

/* A row of whoever begins, beside the one of what was carried out. It is nobody's session. */
#define BEGUN "$1 || ' begun'"

/* Was it carried out? 0 | ERR_SIGN_IN_PROVIDER: its ID is another text's | fault. */
static int find(crud_t *crud, const logout_once_t *self, bool *ret_carried_out)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = pg_exec(crud->pg, &res,
                    "SELECT token_hash = $1, coalesce(text_hash, '') = $2 FROM sign_in_logout "
                    "WHERE token_hash IN ($1, " BEGUN ")",
                    2, self->id, self->text);

    *ret_carried_out = false;
    for (int i = 0; !r && i < PQntuples(res); i++) {
        if (*PQgetvalue(res, i, 1) != 't')
            return ERR_SIGN_IN_PROVIDER;
        *ret_carried_out = *ret_carried_out || *PQgetvalue(res, i, 0) == 't';
    }
    return r;
}

/* The same, before the transaction takes other locks: the ID is this text's from now on. */
static int claim(crud_t *crud, const logout_once_t *self, bool *ret_carried_out)
{
    char until[24];
    int r;

    snprintf(until, sizeof(until), "%" PRId64, self->until_s);
    r = pg_exec(crud->pg, NULL,
                "INSERT INTO sign_in_logout (token_hash, provider_hash, expires_at, text_hash) "
                "VALUES (" BEGUN ", '', "
                "greatest(to_timestamp($3::bigint), now() + interval '10 min'), $2) "
                "ON CONFLICT DO NOTHING",
                3, self->id, self->text, until);
    return r ? r : find(crud, self, ret_carried_out);
}

int logout_once_step(crud_t *crud, const logout_once_t *self, logout_some_t *some,
                     const void *ending, reply_t *reply, bool *ret_more)
{
    bool is_done = false;
    int64_t revision = 0;
    int r = find(crud, self, &is_done);

    *ret_more = false;
    if (r || is_done)
        return r;
    r = crud_begin(crud);
    crud->request_key[0] = '\0';
    if (!r)
        r = claim(crud, self, &is_done); /* others may have begun meanwhile, or ended */
    if (!r && !is_done)
        r = some(crud, ending, reply, ret_more);
    r = crud_end(crud, r, &revision);
    if (revision)
        reply->revision = revision;
    return r;
}
