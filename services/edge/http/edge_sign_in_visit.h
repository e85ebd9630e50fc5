/* A request at the sign-in host, while identity is asked. */
#pragma once

#include "services/edge/http/edge_sign_in_answer.h"
#include "services/edge/http/params.h"
#include "services/edge/http/visits.h"
#include "services/edge/table/sign_in.h"

typedef struct visit visit_t;
struct visit {
    asker_t             asker;
    ngx_http_request_t *request;
    route_t            *route;
    params_t            params;
    size_t              form_len;  /* bytes that params came in */
    ngx_str_t           state;   /* of a callback */
    visit_place_t       place;
    /* What answers in place of edge_visit_send; NULL: that does. */
    ngx_int_t         (*finish)(visit_t *visit, const ask_answer_t *answer);
    unsigned            asking:1;
    unsigned            callback:1;
    unsigned            saml:1;          /* edge_visit_saml has found it */
    unsigned            is_document:1;   /* of a login: not framed */
};

/* One for the request, which ends with it. NULL: no memory. */
visit_t *edge_visit_new(ngx_http_request_t *r);

/* The route of that id. NULL: there is none, or it cannot be used. Borrowed: for this turn. */
route_t *edge_visit_find(const char *id, size_t len);
/* Keep the route of that id. NGX_DECLINED: there is none that anybody signs in to. */
ngx_int_t edge_visit_route(visit_t *visit, const char *id, size_t len);
/* The same of a route with a module saml, which may be off: for its provider's sign-outs. */
ngx_int_t edge_visit_saml(visit_t *visit, const char *id, size_t len);
/* Its module for signing in. */
const sign_in_t *edge_visit_config(const route_t *route);
/* A host of the route: its own, or the first name of its edge, with the port. Empty: it has only
 * names with a wildcard. */
ngx_str_t edge_visit_host(ngx_pool_t *pool, const route_t *route);

/* The cookie of the flow that a state names (NULL: none), which the visit keeps. Empty: this
 * browser has not begun it. */
ngx_str_t edge_visit_cookie(visit_t *visit, const param_t *state);
/* {name: [values]}: what a parameter that comes twice means is for identity to say. */
void edge_visit_put_params(pack_t *pk, const params_t *params);

/* Ask identity. pk: a body whose last text, "sealed", is missing; this adds it, shared with whoever
 * has it. The request waits: it is finalized when the answer comes, or when its client leaves. */
ngx_int_t edge_visit_ask(visit_t *visit, const char *verb, const u_char *start, pack_t *pk,
                         shared_text_t *sealed, ngx_msec_t ms);

/* edge_sign_in_next.c: send the browser where the answer says, or give it the page of what is
 * wrong. */
ngx_int_t edge_visit_send(visit_t *visit, const ask_answer_t *answer);

/* One of the edge's pages. */
ngx_int_t edge_visit_fail(ngx_http_request_t *r, ngx_uint_t code);
/* The page of what identity did not grant, with a way to begin again. */
ngx_int_t edge_visit_refuse(visit_t *visit, int code);
