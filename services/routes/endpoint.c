/* endpoint of type cloud: a URL and the traffic policy that answers for it. Endpoints of type edge
 * are made and removed with their edge (hostports.c). */
#include "common/base/cleanup.h"
#include "common/resource/kind_rules.h"
#include "common/base/quote.h"
#include "services/routes/rules.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

static const char INTERNAL[] = ".internal";

/* The parts of a URL that the format endpoint_url accepted. */
typedef struct place {
    char scheme[8], host[260], hostport[272];
    long port;
} place_t;

static const char *text_of(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));

    return value ? value : "";
}

static void split_url(const char *url, place_t *out)
{
    const char *host = strstr(url, "://") + 3, *colon = strrchr(host, ':');

    snprintf(out->scheme, sizeof(out->scheme), "%.*s", (int)strcspn(url, ":"), url);
    snprintf(out->host, sizeof(out->host), "%.*s", (int)strcspn(host, ":"), host);
    out->port = colon ? strtol(colon + 1, NULL, 10) : strcmp(out->scheme, "http") ? 443 : 80;
    snprintf(out->hostport, sizeof(out->hostport), "%s:%ld", out->host, out->port);
}

/* Do edges listen for this endpoint? TCP and TLS endpoints are stored only, like edges of these
 * kinds. */
static bool is_served(const json_t *row)
{
    return !strcmp(text_of(row, "scheme"), "https") && !strcmp(text_of(row, "binding"), "public");
}

/* ---- what edges get: an edge with one route, which has only the policy. All endpoints of a pool
 * are one. ---- */

static void entry_id(const json_t *row, char out[40])
{
    const char *hostport = text_of(row, "hostport");
    unsigned char hash[crypto_hash_sha256_BYTES];
    char hex[33];

    crypto_hash_sha256(hash, (const unsigned char *)hostport, strlen(hostport));
    sodium_bin2hex(hex, sizeof(hex), hash, 16);
    snprintf(out, 40, "ep_%s", hex);
}

static int publish_entries(crud_t *crud, const json_t *row, const json_t *edge, const json_t *route)
{
    char id[40];
    int r;

    entry_id(row, id);
    r = crud_publish(crud, "https_edge", id, edge);
    return r ? r : crud_publish(crud, "https_edge_route", id, route);
}

static int endpoint_publish(crud_t *crud, const json_t *row, json_t **ret_document)
{
    const json_t *account = json_object_get(row, "account_id");
    _cleanup_(json_clear_ref) json_t *edge = NULL;
    _cleanup_(json_clear_ref) json_t *route = NULL;
    char id[40];

    /* the config log entry has the pool's id, so this endpoint has none of its own */
    *ret_document = NULL;
    if (!is_served(row))
        return 0;
    entry_id(row, id);
    edge = json_pack("{s:O, s:[O]}", "account_id", account, "hostports",
                     json_object_get(row, "hostport"));
    route = json_pack("{s:O, s:s, s:s, s:s, s:{s:b, s:O}}", "account_id", account, "edge_id", id,
                      "match_type", "path_prefix", "match", "/", "traffic_policy", "enabled", 1,
                      "value", json_object_get(row, "traffic_policy"));
    return edge && route ? publish_entries(crud, row, edge, route) : -ENOMEM;
}

/* ---- other endpoints with the URL ---- */

/* The other endpoints at this hostport, as rows (pooling_enabled). Locks the hostport until the
 * transaction ends. Internal endpoints are looked up within their account, where their names are
 * unique. */
static int find_others(crud_t *crud, const char *id, const char *hostport, PGresult **ret_rows)
{
    int r =
        pg_defer(crud->pg, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", 1, hostport);

    return r ? r
             : pg_exec(crud->pg, ret_rows,
                       "SELECT pooling_enabled FROM endpoint WHERE hostport = $1 AND id <> $2 "
                       "AND (account_id = $3 OR binding <> 'internal')",
                       3, hostport, id, crud->request->account);
}

int endpoint_check_pool(crud_t *crud, const char *hostport, const char *path, problem_t *problem)
{
    _cleanup_(pgresult_clear) PGresult *rows = NULL;
    int r = find_others(crud, "", hostport, &rows);

    if (!r && PQntuples(rows) && *PQgetvalue(rows, 0, 0) == 't')
        problem_add(problem, ERR_ENDPOINT_POOLING, path, "endpoints that pool have %s",
                    quote(hostport).text);
    return r;
}

static int check_others(crud_t *crud, const json_t *document, problem_t *problem)
{
    bool pools = json_is_true(json_object_get(document, "pooling_enabled"));
    _cleanup_(pgresult_clear) PGresult *rows = NULL;
    int r = find_others(crud, text_of(document, "id"), text_of(document, "hostport"), &rows);

    if (r || PQntuples(rows) == 0)
        return r;
    if (pools != (*PQgetvalue(rows, 0, 0) == 't'))
        return problem_add(problem, ERR_ENDPOINT_POOLING, "pooling_enabled",
                           pools ? "another endpoint has this URL for itself"
                                 : "other endpoints share this URL: they pool");
    return pools ? 0 : problem_add(problem, ERR_DUPLICATE, "url", "another endpoint has this URL");
}

/* Remove the edge entries with the last endpoint at its URL. */
static int release_place(crud_t *crud, const json_t *row)
{
    _cleanup_(pgresult_clear) PGresult *rows = NULL;
    int r;

    if (!is_served(row))
        return 0;
    r = find_others(crud, text_of(row, "id"), text_of(row, "hostport"), &rows);
    return r || PQntuples(rows) ? r : publish_entries(crud, row, NULL, NULL);
}

/* ---- the rules ---- */

/* A public endpoint needs a reserved name, as an edge's hostport does; an internal one needs
 * none. */
static int check_name(crud_t *crud, json_t *document, const place_t *place, json_t *references,
                      problem_t *problem)
{
    bool internal = !strcmp(text_of(document, "binding"), "internal");
    bool tcp = !strcmp(place->scheme, "tcp"), other;
    size_t len = strlen(place->host), end = strlen(INTERNAL);
    json_t *reserved = NULL;
    int r;

    json_object_set_new(document, "domain_id", json_null());
    json_object_set_new(document, "tcp_addr_id", json_null());
    if (internal != (len > end && !strcmp(place->host + len - end, INTERNAL)))
        return problem_add(problem, ERR_ENDPOINT_URL, "url",
                           internal ? "the host of an internal endpoint ends in .internal"
                                    : "hosts that end in .internal are for internal endpoints");
    if (internal)
        return 0;
    if (!tcp && place->port != (strcmp(place->scheme, "http") ? 443 : 80))
        return problem_add(problem, ERR_ENDPOINT_URL, "url",
                           "a public %s endpoint is at the port of its scheme", place->scheme);
    r = hostport_reserved(crud, place->hostport, tcp, &reserved, &other);
    if (r)
        return r;
    if (!reserved)
        return problem_add(problem, ERR_HOSTPORT_NOT_RESERVED, "url",
                           tcp ? "%s is not reserved in this account (POST /reserved_addrs)"
                               : "%s is not reserved in this account (POST /reserved_domains)",
                           quote(tcp ? place->hostport : place->host).text);
    json_object_set(document, tcp ? "tcp_addr_id" : "domain_id", reserved);
    json_array_append_new(references, json_pack("[s, o]", "url", reserved));
    return 0;
}

static void set_text(json_t *document, const char *key, const char *value)
{
    json_object_set_new(document, key, json_string(value));
}

static void complete_row(crud_t *crud, json_t *document, const place_t *place)
{
    json_t *actor = json_object_get(crud->request->actor, "id");

    json_object_set(document, "object_id", json_object_get(document, "id"));
    json_object_set_new(document, "principal_id", actor ? json_incref(actor) : json_null());
    set_text(document, "scheme", place->scheme);
    for (const char *const *empty =
             (const char *const[]){"region", "name", "upstream_url", "upstream_protocol", NULL};
         *empty; empty++)
        set_text(document, *empty, "");
}

static int endpoint_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                          problem_t *problem)
{
    const char *binding =
        json_string_value(json_array_get(json_object_get(document, "bindings"), 0));
    place_t place;
    char now[32];
    int r;

    if (strcmp(text_of(document, "type"), "cloud"))
        return problem_add(problem, ERR_ENDPOINT_TYPE, "type",
                           old ? "this endpoint comes and goes with its edge: change that one"
                               : "endpoints of this type are made by edges");
    split_url(text_of(document, "url"), &place);
    if (!old)
        complete_row(crud, document, &place);
    else if (strcmp(text_of(old, "scheme"), place.scheme))
        return problem_add(problem, ERR_IMMUTABLE_FIELD, "url", "its scheme cannot change");
    crud_now(now);
    set_text(document, "updated_at", now);
    set_text(document, "binding", binding);
    set_text(document, "proto", place.scheme);
    set_text(document, "host", place.host);
    set_text(document, "hostport", place.hostport);
    json_object_set_new(document, "port", json_integer(place.port));
    json_object_set(document, "public_url", json_object_get(document, "url"));
    r = check_name(crud, document, &place, references, problem);
    if (!r)
        r = check_others(crud, document, problem);
    if (!r && old && (strcmp(text_of(old, "hostport"), place.hostport) || !is_served(document)))
        r = release_place(crud, old);
    return r;
}

static int endpoint_retire(crud_t *crud, const json_t *row, problem_t *problem)
{
    if (strcmp(text_of(row, "type"), "cloud"))
        return problem_add(problem, ERR_ENDPOINT_TYPE, NULL,
                           "this endpoint comes and goes with its edge: delete that one, or take "
                           "the hostport from it");
    return release_place(crud, row);
}

KIND_RULES(endpoint, .check = endpoint_check, .publish = endpoint_publish,
           .retire = endpoint_retire);
