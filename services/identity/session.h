/* Sessions: who is signed in at a route, in which browser. Known by the SHA-256 of the cookie's
 * value, in hexadecimal; the value itself is nowhere stored. */
#pragma once

#include "services/identity/person.h"
#include "services/identity/sign_in_sealed.h"
#include "services/identity/sign_in_words.h"

enum { SESSION_HOST_SIZE = 256, SESSION_PLACE_SIZE = SEALED_PLACE_SIZE + 80 + SESSION_HOST_SIZE };

struct user_room; /* user_room.h */

typedef struct session {
    char id[ID_MAX], user[ID_MAX], account[64], edge[ID_MAX], route[ID_MAX];
    char hash[WORDS_HEX_SIZE], digest[SIGN_IN_DIGEST_SIZE];
    char source[WORDS_HEX_SIZE];      /* session_source of who vouched; "": it is not known */
    char place[SESSION_PLACE_SIZE];   /* session_place of who vouched */
    char host[SESSION_HOST_SIZE];     /* name of where it was made; "": it is not known */
    char client[WORDS_HEX_SIZE];      /* session_client_hash of who vouched; "": it has none */
    char tokens_hash[WORDS_HEX_SIZE]; /* SHA-256 of its tokens as they are stored */
    person_t person; /* as the provider described it to this session last, with its tokens */
    int64_t created_ms, expires_ms, due_ms, inactivity_ms, last_active_ms, checked_ms;
    int64_t until_ms; /* the provider wants it to end then at the latest; 0: it does not say */
    int64_t retry_ms; /* the provider is not asked before */
    int64_t revision; /* of the newest module by which it was judged */
    int64_t now_ms;   /* PostgreSQL's clock, which all copies share, when it was loaded */
} session_t;

/* Wipe and free what it owns. */
void session_done(session_t *self);

/* Load the one of that hash. 0: *out is for session_done | ERR_SESSION_GONE | fault. */
int session_load(crud_t *crud, const char *hash, session_t *out);
/* Is it over by itself? */
bool session_is_over(const session_t *self, int64_t now_ms);
/* Are these rules older than those by which it was judged last? Then an edge has them that is
 * behind, and they neither end it nor set its times. */
bool session_is_beyond(const session_t *self, const sealed_t *sealed);
/* In a transaction, before rules end it (ends) or set its times: no others do until that is over.
 * Locks its rows in the order of all who delete sessions, or change them (below). 0 |
 * ERR_SESSION_GONE | ERR_SESSION_STALE: it is beyond these rules by now | fault. */
int session_lock_rules(crud_t *crud, const session_t *session, const sealed_t *sealed, bool ends);
/* As edges get it (proto/WIRE.md). A new reference; NULL: no memory. */
json_t *session_json(const session_t *self);

/* The source of what was idle and made room. Nobody revoked that: a user who goes as this takes no
 * sign-in with him that is not a session yet. No caller of the API has it. */
#define SESSION_IDLE "IDLE"

/* While it lasts crud's request is one of the account, with who does this, for crud_add and
 * crud_remove. */
typedef struct session_act {
    crud_t *crud;
    const request_t *before;
    request_t request;
} session_act_t;

/* Begin: the user does it; subject: his e-mail address, which his
 * provider vouches for, NULL: there is none; source: how. */
void session_act_as(session_act_t *self, crud_t *crud, const char *account, const char *user,
                    const char *subject, const char *source);
/* The end: crud's request is that of before. */
void session_act_done(session_act_t *self);

/* In the transaction of a sign-in, behind user_room_begin, before it changes anything: lock the
 * sessions that give way to it, all in their order (below): of the person the oldest beyond the
 * bound (user-sessions), and those of the cookies that the browser has shown (one value or a list,
 * of which four count). 0 | -ENOMEM | fault. */
int session_lock_old(crud_t *crud, const sealed_t *sealed, const person_t *person,
                     const json_t *cookies);
/* Then end those of the cookies: the new sign-in takes the place of the session that the browser
 * had here, or at another route whose cookie has the same name. Which of them are over already is
 * no matter. 0 | fault. */
int session_end_old(crud_t *crud, const sealed_t *sealed, const json_t *cookies,
                    problem_t *problem);
/* And make room for another session of the user: the oldest beyond the bound end, some of them
 * where there are many. 0 | fault. */
int session_end_oldest(crud_t *crud, const char *user, problem_t *problem);

/* In a transaction, behind session_end_old: make or update the user that the newcomer is, and make
 * a session of his. token: the cookie's value. 0 | ERR_LIMIT_EXCEEDED, as user_room_add | PG_AGAIN
 * | fault. */
int session_make(crud_t *crud, const sealed_t *sealed, struct user_room *room,
                 const request_t *request, const char *token, problem_t *problem);

/* May the route of a sealed module (or of its place) end it, whose edge has been shown its cookie?
 * Routes of one edge have cookies of one name: who signs out, or in, at one does so at the
 * other. */
bool session_is_beside(const session_t *self, const sealed_t *sealed);

/* In a transaction: end it, as who is said above. 0 | ERR_SESSION_GONE | fault. */
int session_end(crud_t *crud, const session_t *session, problem_t *problem);

/* What a request was to end is gone already, perhaps by an earlier try of it whose answer still
 * waits for edges, or was lost: this one waits for them too, up to the newest change there is. 0 |
 * fault. */
int session_answer_gone(crud_t *crud, reply_t *reply);

/* Of rows s of sign_in_session and u of application_user: the address that its provider vouched for
 * to this session, or ''. */
#define SESSION_SUBJECT                                                                            \
    "CASE WHEN s.email_verified THEN coalesce(s.claims->>'email', u.email) ELSE '' END"

/* In a transaction: end those of an account that somebody else than their browsers ends (source);
 * found: their ids, users and SESSION_SUBJECT. Which of them are over already is no matter. 0 |
 * fault. */
int session_end_found(crud_t *crud, const char *account, const char *source, const PGresult *found,
                      problem_t *problem);

/* In a transaction: what a person is called now, and that its provider was asked; and how long the
 * session lasts by the module as it is now, also in *session. 0 | ERR_SESSION_GONE |
 * ERR_SESSION_STALE: it is beyond that module | fault. */
int session_checked(crud_t *crud, session_t *session, const sealed_t *sealed,
                    const person_t *person);
/* The same of one that these rules admit by what its provider has said before. */
int session_readmitted(crud_t *crud, session_t *session, const sealed_t *sealed);
/* What an edge is told that has older rules: they admit it, for no longer than they and the newer
 * ones say. Nothing is stored. */
void session_narrow(session_t *session, const sealed_t *sealed);

/* What of a module's document decides whom the provider can speak of and what it says: all but the
 * lists of who may enter, times, and secrets. What was said under one is as good under the other
 * where these are equal. -ENOMEM or 0. */
int session_source(const sealed_t *sealed, char out[WORDS_HEX_SIZE]);

/* Where a session counts that is made by that module at that host (session_host), as
 * sign_in_module.gone takes it: "route module made_id prefix host" (sealed_place), where the prefix
 * is that of its cookie's name. Under another one, and at other hosts, browsers have no cookie of
 * it. */
void session_place(const sealed_t *sealed, const char *host, char out[SESSION_PLACE_SIZE]);
/* The name of a host that may have a port, and "https://" before it; "" of NULL, and where it is
 * too long. Cookies know no ports (RFC 6265, 8.5). */
void session_host(const char *host, char out[SESSION_HOST_SIZE]);
/* Was its cookie shown at the host where the session was made? host: as an edge says it; NULL: that
 * is of a version which does not. */
bool session_is_at_its_host(const session_t *self, const char *host);
/* Is it of that module, and was its cookie set under the name that the module's have now? Of which
 * prefix one is that a version before made is not known, so any will do. */
bool session_is_of_module(const session_t *self, const sealed_t *sealed);

/* Sealed tokens of a person, "" where there are none; NULL: no memory. */
char *session_seal_tokens(crud_t *crud, const person_t *person);

/* What a provider's own sign-outs find sessions by, SHA-256 in hexadecimal: which client of which
 * issuer an account has, and which session of that provider a person's is; "" where it did not
 * say. */
void session_client_hash(const char *account, const char *issuer, const char *client_id,
                         char out[WORDS_HEX_SIZE]);
void session_provider_hash(const char *client_hash, const char *provider_session,
                           char out[WORDS_HEX_SIZE]);
/* The same of SAML: which route an identity provider's service provider is; a name that the
 * provider gave there; and a session of that name, "" where the provider did not say which. */
void session_saml_client(const char *account, const char *issuer, const char *route,
                         char out[WORDS_HEX_SIZE]);
void session_saml_name(const char *client, const char *name, char out[WORDS_HEX_SIZE]);
void session_saml_index(const char *client, const char *name, const char *index,
                        char out[WORDS_HEX_SIZE]);
/* Those of the session of a person that signed in by a sealed module. */
void session_provider_hashes(const sealed_t *sealed, const person_t *person,
                             char client[WORDS_HEX_SIZE], char provider[WORDS_HEX_SIZE]);

/* Is the module one of the client by which the session was made? What was granted to another one is
 * no answer to this one. */
bool session_is_of_client(const session_t *self, const sealed_t *sealed);

/* The order of locks, for all transactions that sign in, check, use, sign out or delete; whoever
 * leaves some out keeps to it with the others. Locks that are taken in two orders are a deadlock,
 * which costs a second, and one of the two a try.
 *
 *   1. the person (session_lock_person): by any form of the name, by the known form, and as one
 *      whose session at the provider is not known
 *   2. the session at the provider, or the name there (session_lock_provider)
 *   3. the room of the account (user_room_begin)
 *   4. rows of sessions, several in the order of their ids; of one application_session before
 *      object and sign_in_session. Those that give way to a sign-in, too (session_lock_old)
 *   5. the user's row, of several in the order of their ids
 *   6. what makes room for a sign-in in its account: rows of other users, and of their sessions
 *   7. config_head, with the commit (crud_end)
 *
 * Making room in an account finds rows in no order, and skips what is locked. */

/* In a transaction: nobody else ends all sessions of that person (session_person_hash,
 * session_sidless_hash), or begins one, until it is over. 0 | fault. */
int session_lock_person(crud_t *crud, const char *person_hash);

/* In a transaction: nobody else begins or ends sessions of that session at the provider, or of that
 * name, until it is over. 0 | fault. */
int session_lock_provider(crud_t *crud, const char *provider_hash);

/* In a transaction, before a session is made of a sign-in: has the provider ended the session there
 * that the sign-in is of, since it vouched (OpenID Connect: proven_at of proven_t; SAML: what the
 * person has)? It does not while the transaction lasts. 0 | ERR_SIGN_IN_CODE | fault. */
int session_check_provider(crud_t *crud, const sealed_t *sealed, const person_t *person,
                           const char *proven_at);

/* Who a person is to an account, SHA-256 in hexadecimal: of provider_name, provider_url, id and,
 * where that is known, name_form. */
void session_person_hash(const char *account, const person_t *person, char out[WORDS_HEX_SIZE]);
/* The same of a person as far as the provider has not said which of its sessions the person signed
 * in by: any that it ends may be the one. */
void session_sidless_hash(const char *account, const person_t *person, char out[WORDS_HEX_SIZE]);

/* In a transaction, before all sessions of the person end: a sign-in that its provider has vouched
 * for until now, and that is not a session yet, leads to none. 0 | fault. */
int session_end_person(crud_t *crud, const char *person_hash);
/* In a transaction, before a session is made of a sign-in: has that been done since proven_at (of
 * proven_t), to the person, to one of whom the form of the name was not known, or to those whose
 * session at the provider is not known, of whom this is one? It is not while the transaction
 * lasts. 0 | ERR_SIGN_IN_CODE | fault. */
int session_check_person(crud_t *crud, const char *account, const person_t *person,
                         const char *proven_at);

/* When the provider that vouched then must vouch again, by the module; 0: never. */
int64_t session_due_ms(const sealed_t *sealed, int64_t checked_ms);

/* The verbs, for edges. session.check {hash, route, host?, digest, last_active_ms?, sealed?} ->
 * {session}. 0 | ERR_SESSION_GONE | ERR_SESSION_STALE | ERR_SIGN_IN_DENIED: and it is ended, unless
 * it is beyond the sealed rules | ERR_SIGN_IN_UNAVAILABLE | fault. */
int on_session_check(crud_t *crud, const request_t *request, reply_t *reply);
/* session.touch {sessions: [{hash, last_active_ms}]} -> {}. 0 | ERR_INVALID_FIELD | fault. */
int on_session_touch(crud_t *crud, const request_t *request, reply_t *reply);
/* session.end {hash, route, place?, sealed?} -> {ended, gone?, location?, post?}; also where there
 * is none. ended: false where it is of another edge. gone: there is no such session, or none any
 * more. location, or a form to post: with sealed, of who was signed in by a provider that wants to
 * know: where the browser signs out there. 0 | ERR_INVALID_FIELD | fault. */
int on_session_end(crud_t *crud, const request_t *request, reply_t *reply);
