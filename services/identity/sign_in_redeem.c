/* sign_in.redeem: at the route's host, the code becomes a session. */
#include "common/base/cleanup.h"
#include "services/identity/rules.h"
#include "services/identity/session.h"
#include "services/identity/sign_in.h"
#include "services/identity/sign_in_code.h"
#include "services/identity/sign_in_run.h"
#include "services/identity/user_room.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>

enum { WHY_SIZE = 200 };

/* 0 | ERR_SIGN_IN_CODE, ERR_SIGN_IN_DENIED: to be committed, so that the code is gone | other. */
static int redeem(crud_t *crud, const sealed_t *sealed, const request_t *request, const char *token,
                  proven_t *proven, user_room_t *room, problem_t *problem)
{
    const json_t *old = json_object_get(request->body, "old");
    char why[WHY_SIZE] = "";
    int r;

    proven_done(proven);
    r = sign_in_code_take(crud, sealed, request, proven);
    if (r)
        return r;
    if (!sign_in_admits(sealed->module, sealed->config, &proven->person, why, sizeof(why)))
        return problem_add(problem, ERR_SIGN_IN_DENIED, NULL, "%s", why);
    r = session_check_person(crud, sealed->account, &proven->person, proven->proven_at);
    if (!r)
        r = session_check_provider(crud, sealed, &proven->person, proven->proven_at);
    if (!r)
        r = user_room_begin(crud, room);
    if (!r)
        r = session_lock_old(crud, sealed, &proven->person, old);
    if (!r)
        r = session_end_old(crud, sealed, old, problem);
    return r ? r : session_make(crud, sealed, room, request, token, problem);
}

/* Say what was made. */
static int answer_redeemed(crud_t *crud, const char *token, const proven_t *proven, reply_t *reply)
{
    _cleanup_(session_done) session_t session = {0};
    char hex[WORDS_HEX_SIZE];
    int r;

    words_hex(token, hex);
    r = session_load(crud, hex, &session);
    if (r)
        return r;
    reply->body = json_pack("{s:s, s:s, s:o}", "token", token, "target", proven->target, "session",
                            session_json(&session));
    return reply->body ? 0 : -ENOMEM;
}

/* In a transaction of its own. */
static int redeem_once(crud_t *crud, const sealed_t *sealed, const request_t *request,
                       const char *token, proven_t *proven, user_room_t *room, reply_t *reply)
{
    int refused = 0, r = crud_begin(crud);

    if (!r)
        r = redeem(crud, sealed, request, token, proven, room, &reply->problem);
    if (!r)
        r = answer_redeemed(crud, token, proven, reply);
    if (r == ERR_SIGN_IN_CODE || r == ERR_SIGN_IN_DENIED) {
        refused = r;
        r = 0;
    }
    r = user_room_end(crud, room, r, &reply->revision);
    return r ? r : refused;
}

int on_sign_in_redeem(crud_t *crud, const request_t *request, reply_t *reply)
{
    _cleanup_(sealed_done) sealed_t sealed;
    _cleanup_(proven_done) proven_t proven = {0};
    user_room_t room = {.newcomer = &proven.person};
    char token[WORDS_TOKEN_LEN + 1];
    int r = sealed_open(&sealed, sign_in_key(crud), request->body, &reply->problem);

    if (r)
        return r;
    room.account = sealed.account;
    words_token(token);
    crud->request_key[0] = '\0';
    do {
        r = redeem_once(crud, &sealed, request, token, &proven, &room, reply);
    } while (r == ERR_LIMIT_EXCEEDED && !(r = user_room_widen(crud, &room, &reply->problem)));
    sodium_memzero(token, sizeof(token));
    return r;
}
