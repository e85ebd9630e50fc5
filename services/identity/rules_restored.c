#include "services/identity/rules_restored.h"
#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "services/identity/rules_newest.h"

#include <inttypes.h>
#include <stdio.h>

enum { ASK_MS = 2000 };

/* What is lost is at most what was known before the question: a change that comes meanwhile has a
 * higher revision than any before it. */
int rules_restored_ask(crud_t *crud, const session_t *session, run_t *run, run_t **run_p)
{
    char place[SEALED_PLACE_SIZE];
    int64_t known;

    sealed_place(&run->sealed, place);
    if (!rules_newest_take_question(place, bus_mono_ms()))
        return ERR_SESSION_STALE;
    known = rules_newest_known(place);
    run->lost_to = known > session->revision ? known : session->revision;
    return run_ask_verb(crud, run_p, "sign_in_module.gone", json_pack("{s:[s]}", "places", place),
                        ASK_MS);
}

void rules_restored_take(run_t *run, const wait_answer_t *came)
{
    const json_t *revisions = came ? json_object_get(came->said, "revisions") : NULL;
    int64_t in_force = json_integer_value(json_array_get(revisions, 0)), lost_to = run->lost_to;
    char place[SEALED_PLACE_SIZE];

    run->lost_to = 0;
    if (in_force <= 0 || in_force >= lost_to)
        return; /* nobody knows, or the edge is behind */
    sealed_place(&run->sealed, place);
    log_warn("the rules of %s that are in force are older than others that were: the database of "
             "postern-routes was set back",
             place);
    rules_newest_lose(place, in_force, lost_to);
}

int rules_restored_apply(crud_t *crud, session_t *session, const sealed_t *sealed)
{
    char place[SEALED_PLACE_SIZE], lost[24], now[24];
    int r;

    sealed_place(sealed, place);
    if (!session_is_beyond(session, sealed) || !rules_newest_is_lost(place, session->revision)
        || sealed->revision < rules_newest_in_force(place))
        return 0;
    snprintf(lost, sizeof(lost), "%" PRId64, session->revision);
    snprintf(now, sizeof(now), "%" PRId64, sealed->revision);
    crud->changes = true;
    r = pg_exec(crud->pg, NULL,
                "UPDATE sign_in_session SET rules_revision = $3::bigint "
                "WHERE session_id = $1 AND rules_revision = $2::bigint",
                3, session->id, lost, now);
    if (!r)
        session->revision = sealed->revision;
    return r;
}
