#include "services/edge/control/edge_helper_ask.h"
#include "services/edge/control/ask_reply.h"
#include "services/edge/control/edge_ask.h"
#include "services/edge/control/edge_clock.h"
#include "services/edge/control/relay.h"
#include "services/edge/worker/edge_conf.h"
#include "common/base/id.h"
#include "common/base/invariant.h"

enum { BURST = 64, REPLY_FRAMES = 3 };

static edge_socket_t  copies[RELAY_COPIES_MAX];
static int            copy_count;
static relay_t       *relay;     /* NULL: there is nobody to be asked */
static link_t        *to;        /* the worker, while something is passed to it */
static ngx_int_t      passed;    /* NGX_OK, while it takes that */
static u_char         told_there;

_Static_assert((int) EDGE_HELPER_ASK_ITEMS == 2 * (int) RELAY_COPIES_MAX, "a monitor for each");
_Static_assert((int) RELAY_NOBODY == (int) ASK_NOBODY && (int) RELAY_LATE == (int) ASK_LATE,
               "they go to the worker as they are");
_Static_assert((int) RELAY_ID_SIZE >= (int) ID_MAX
               && (int) RELAY_ID_SIZE > (int) ASK_REQUEST_SIZE + 20, "ids fit");


static int64_t
now_ms(void)
{
    return (int64_t) (edge_clock_us() / 1000);
}


/* ---- of the relay ---- */

static bool
copy_is_there(void *unused, int copy)
{
    (void) unused;
    return copies[copy].is_connected && edge_socket_is_ready(&copies[copy], ZMQ_POLLOUT);
}


/* verb, header, body: proto/WIRE.md. */
static bool
send_question(void *unused, int copy, const relay_question_t *question, int64_t left_ms)
{
    bool             sent;
    char             edge[ASK_ACCOUNT_SIZE + 1];
    ngx_str_t        frames[3];
    msgpack_sbuffer  header;

    (void) unused;
    ngx_snprintf((u_char *) edge, sizeof(edge) - 1, "%V%Z", &edge_conf()->name);
    edge[sizeof(edge) - 1] = '\0';
    msgpack_sbuffer_init(&header);
    sent = ask_header_pack(&header, question->id, question->account, left_ms, edge) == 0;
    if (sent) {
        frames[0].data = (u_char *) question->verb;
        frames[0].len = ngx_strlen(question->verb);
        frames[1].data = (u_char *) header.data;
        frames[1].len = header.size;
        frames[2].data = (u_char *) question->body;
        frames[2].len = question->len;
        sent = edge_socket_send(&copies[copy], frames, 3) == NGX_OK;
    }
    msgpack_sbuffer_destroy(&header);
    return sent;
}


/* The id of a client's request is found as it is in the logs of all services; what is behind it
 * tells this question from the others for the same request. */
static void
make_id(void *unused, const ask_head_t *head, char id[RELAY_ID_SIZE])
{
    (void) unused;
    if (head->request[0] == '\0') {
        id_make("op", id);
        return;
    }
    (void) ngx_snprintf((u_char *) id, RELAY_ID_SIZE, "%s.%uL%Z", head->request, head->number);
}


static void
pass_answer(void *unused, const ask_told_t *told, const void *body, size_t len)
{
    ngx_str_t  frames[2];

    (void) unused;
    frames[0].data = (u_char *) told;
    frames[0].len = sizeof(*told);
    frames[1].data = (u_char *) body;
    frames[1].len = told->code == 0 ? len : 0;
    if (link_send(to, LINK_ASK, frames, 2, 0) == NGX_ERROR) {
        passed = NGX_ERROR;
    }
}


static const relay_ports_t  ports = { copy_is_there, send_question, make_id, pass_answer };


/* ---- the sockets ---- */

static ngx_int_t
open_copies(void **context)
{
    u_char     *at = edge_conf()->identity.data;
    u_char     *end = at + edge_conf()->identity.len, *comma;
    ngx_str_t   endpoint;

    for ( ; at < end; at = comma + 1) {
        comma = ngx_strlchr(at, end, ',');
        comma = comma ? comma : end;
        endpoint.data = at;
        endpoint.len = comma - at;
        INVARIANT(copy_count < RELAY_COPIES_MAX);   /* see edge_helper_copies */
        copies[copy_count].kind = LINK_ASK;
        if (edge_socket_open(&copies[copy_count++], context, &endpoint, "identity") != NGX_OK) {
            return NGX_ERROR;
        }
    }
    relay = copy_count ? relay_new(copy_count, &ports, NULL) : NULL;
    return copy_count == 0 || relay ? NGX_OK : NGX_ERROR;
}


void
edge_helper_ask_close(void)
{
    while (copy_count > 0) {
        edge_socket_close(&copies[--copy_count]);
    }
    relay_destroy(&relay);
}


ngx_int_t
edge_helper_ask_open(void **context)
{
    if (open_copies(context) == NGX_OK) {
        return NGX_OK;
    }
    edge_helper_ask_close();
    return NGX_ERROR;
}


int
edge_helper_ask_poll(zmq_pollitem_t *items)
{
    int  i, n = 0;

    for (i = 0; i < copy_count; i++) {
        items[n++] = (zmq_pollitem_t) { copies[i].socket, 0, ZMQ_POLLIN, 0 };
        items[n++] = (zmq_pollitem_t) { copies[i].monitor, 0, ZMQ_POLLIN, 0 };
    }
    return n;
}


long
edge_helper_ask_patience(void)
{
    return relay && relay_count(relay) ? RELAY_TICK_MS : -1;
}


/* ---- questions, answers ---- */

static ngx_int_t
nobody(link_t *worker, uint64_t number)
{
    ask_told_t  told;

    ask_told_init(&told, number, ASK_NOBODY, "", 0);
    to = worker;
    passed = NGX_OK;
    pass_answer(NULL, &told, "", 0);
    return passed;
}


void
edge_helper_ask_take(link_t *worker, const link_message_t *message)
{
    ask_head_t  head;

    if (message->n != 2
        || !ask_head_read(&head, message->frames[0].data, message->frames[0].len,
                          message->frames[1].len))
    {
        return;
    }
    if (relay == NULL) {
        (void) nobody(worker, head.number);
        return;
    }
    to = worker;
    relay_take(relay, &head, message->frames[1].data, message->frames[1].len, now_ms());
}


/* id, outcome, body, and more that says nothing here. */
static void
take_reply(int copy, const ngx_str_t *frames, ngx_uint_t n)
{
    int64_t     now = now_ms();
    uint64_t    number;
    ask_told_t  told;

    number = relay_heard(relay, copy, n ? frames[0].data : NULL, n ? frames[0].len : 0, now);
    if (number == 0) {
        return;
    }
    if (n < REPLY_FRAMES) {
        ask_reply_read(&told, number, "", 0, "", 0);
        relay_reply(relay, copy, &told, "", 0, now);
        return;
    }
    ask_reply_read(&told, number, frames[1].data, frames[1].len, frames[2].data, frames[2].len);
    relay_reply(relay, copy, &told, frames[2].data, frames[2].len, now);
}


/* Answers of one copy, BURST at most: the others have some, too. */
static void
take_replies(int copy)
{
    zmq_msg_t   parts[LINK_FRAMES_MAX];
    ngx_str_t   frames[LINK_FRAMES_MAX];
    ngx_uint_t  n, burst;

    for (burst = 0; burst < BURST && passed == NGX_OK
                    && edge_socket_is_ready(&copies[copy], ZMQ_POLLIN); burst++)
    {
        n = edge_socket_receive(&copies[copy], parts, frames);
        take_reply(copy, frames, n);
        while (n > 0) {
            zmq_msg_close(&parts[--n]);
        }
    }
}


static void
say_whether_there(void)
{
    int         i;
    u_char      there = 0;
    ngx_str_t   frame;

    for (i = 0; i < copy_count; i++) {
        there |= copy_is_there(NULL, i);
    }
    if (there != told_there && passed == NGX_OK) {
        told_there = there;
        frame.data = &there;
        frame.len = 1;
        passed = link_send(to, LINK_ASK_THERE, &frame, 1, 0) == NGX_ERROR ? NGX_ERROR : NGX_OK;
    }
}


ngx_int_t
edge_helper_ask_turn(link_t *worker)
{
    int  i;

    if (relay == NULL) {
        return NGX_OK;
    }
    to = worker;
    passed = NGX_OK;
    for (i = 0; i < copy_count; i++) {
        take_replies(i);   /* before the end of the connection that brought them */
        if (edge_socket_has_ended(&copies[i])) {
            relay_lost(relay, i, now_ms());
        }
    }
    relay_tick(relay, now_ms());
    say_whether_there();
    return passed;
}
