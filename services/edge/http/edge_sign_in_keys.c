#include "services/edge/http/edge_sign_in_keys.h"
#include "services/edge/control/edge_ask.h"
#include "services/edge/http/edge_body.h"
#include "services/edge/http/edge_header.h"
#include "services/edge/http/edge_page.h"
#include "services/edge/http/edge_text.h"
#include "services/edge/table/document.h"
#include "common/base/err.h"

enum {
    KEYS_MAX = 16384,     /* bytes */
    FRESH_MS = 60000,     /* until they are asked for again, which nobody waits for */
    ASK_MS = 5000,
    WAITING_MAX = 1024
};

/* A request that waits for them. */
typedef struct {
    ngx_http_request_t  *request;
    ngx_queue_t          link;
    unsigned             waiting:1;
} wait_t;

static u_char       keys[KEYS_MAX];
static size_t       keys_len;      /* 0: they are not known yet */
static ngx_msec_t   asked_at;
static asker_t      asker;
static ngx_uint_t   asking, waits;
static ngx_queue_t  waiting;


static ngx_int_t
add_header(ngx_http_request_t *r, const char *name, const char *value)
{
    const header_t  add = {
        .name = (char *) name, .name_len = ngx_strlen(name), .lower = "",
        .value = (char *) value, .value_len = ngx_strlen(value)
    };

    return edge_header_answer(r, &add);
}


/* The keys of the next period are among them, so they may be kept for long. */
static ngx_int_t
send_keys(ngx_http_request_t *r)
{
    u_char     *copy = ngx_pnalloc(r->pool, keys_len);
    ngx_int_t   rc;

    rc = edge_body_discard(r, edge_ctx(r));
    if (rc != NGX_OK) {
        return rc;
    }
    if (copy == NULL || add_header(r, "Cache-Control", "public, max-age=3600") != NGX_OK
        || add_header(r, "X-Content-Type-Options", "nosniff") != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    ngx_memcpy(copy, keys, keys_len);
    return edge_text_send(r, NGX_HTTP_OK, "application/jwk-set+json", copy, keys_len);
}


static ngx_int_t
send_unavailable(ngx_http_request_t *r)
{
    edge_ctx(r)->error = ERR_EDGE_SIGN_IN_UNAVAILABLE;
    return edge_error_handler(r);
}


static void
leave_queue(void *data)
{
    wait_t  *wait = data;

    if (wait->waiting) {
        ngx_queue_remove(&wait->link);
        wait->waiting = 0;
        waits--;
    }
}


static void
on_keys(asker_t *who, const ask_answer_t *answer)
{
    wait_t                *wait;
    ngx_connection_t      *c;
    ngx_http_request_t    *r;
    const msgpack_object  *value;

    (void) who;
    asking = 0;
    value = answer->code == 0 ? document_get(answer->body, "keys") : NULL;
    if (value && value->type == MSGPACK_OBJECT_STR && value->via.str.size <= KEYS_MAX) {
        ngx_memcpy(keys, value->via.str.ptr, value->via.str.size);
        keys_len = value->via.str.size;
    }
    while (!ngx_queue_empty(&waiting)) {
        wait = ngx_queue_data(ngx_queue_head(&waiting), wait_t, link);
        leave_queue(wait);
        r = wait->request;
        c = r->connection;
        ngx_http_set_log_request(c->log, r);
        ngx_http_finalize_request(r, keys_len ? send_keys(r) : send_unavailable(r));
        ngx_http_run_posted_requests(c);   /* r may have been freed */
    }
}


static ngx_int_t
ask_keys(void)
{
    static const u_char  body[] = { 0x80 };   /* {} */
    ngx_str_t            nobody = ngx_null_string;

    if (asking) {
        return NGX_OK;
    }
    if (waiting.next == NULL) {
        ngx_queue_init(&waiting);
    }
    asker.answered = on_keys;
    if (edge_ask(&asker, "sign_in.keys", &nobody, 0, body, sizeof(body), ASK_MS) != NGX_OK) {
        return NGX_DECLINED;
    }
    asking = 1;
    asked_at = ngx_current_msec;
    return NGX_OK;
}


static ngx_int_t
wait_for_keys(ngx_http_request_t *r)
{
    wait_t              *wait;
    ngx_pool_cleanup_t  *cln;

    if (waits >= WAITING_MAX || ask_keys() != NGX_OK) {
        return send_unavailable(r);
    }
    cln = ngx_pool_cleanup_add(r->pool, sizeof(wait_t));
    if (cln == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    wait = cln->data;
    wait->request = r;
    wait->waiting = 1;
    ngx_queue_insert_tail(&waiting, &wait->link);
    waits++;
    cln->handler = leave_queue;
    r->main->count++;
    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_request_empty_handler;
    return NGX_DONE;
}


ngx_int_t
edge_sign_in_keys(ngx_http_request_t *r)
{
    if (keys_len == 0) {
        return wait_for_keys(r);
    }
    if (ngx_current_msec - asked_at >= FRESH_MS) {
        (void) ask_keys();
    }
    return send_keys(r);
}
