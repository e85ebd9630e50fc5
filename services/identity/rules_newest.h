/* The newest rules of each sign-in module that anybody has shown: an edge that is behind has older
 * ones, which end no session, also none that nobody has used since the newer ones came. Kept in
 * memory, by this copy for itself: what every edge brings that asks it anything, and what sessions
 * say by which rules they were judged, by whichever copy. */
#pragma once

#include "services/identity/sign_in_sealed.h"

enum {
    RULES_NEWEST_LOOK_MS = 10000, /* between two looks through the sessions of a module */
    RULES_NEWEST_ASK_MS = 5000    /* between two questions to postern-routes about it */
};

/* Somebody has rules of that revision of the module at that place (sealed_place). */
void rules_newest_note(const char *place, int64_t revision);
/* The highest revision that was noted; 0: none is remembered. */
int64_t rules_newest_known(const char *place);
/* May the sessions of the place be looked through now? Then they are. now_ms: monotonic. */
bool rules_newest_take_look(const char *place, int64_t now_ms);

/* Revisions above the first one, up to the second, were lost with a database of postern-routes that
 * was set back: they are newer than none, and none that is noted from then on. */
void rules_newest_lose(const char *place, int64_t above, int64_t to);
bool rules_newest_is_lost(const char *place, int64_t revision);

/* The revision in force when such were found last; 0: none were. */
int64_t rules_newest_in_force(const char *place);
/* May postern-routes be asked now which rules of the place are in force? Then it is. */
bool rules_newest_take_question(const char *place, int64_t now_ms);

/* Are there newer rules than these, as far as this copy knows or some of the module's sessions say?
 * 0 | fault. */
int rules_newest_find(crud_t *crud, const sealed_t *sealed, bool *ret_newer);
