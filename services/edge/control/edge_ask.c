#include "services/edge/control/edge_ask.h"
#include "services/edge/control/ask_waits.h"
#include "services/edge/control/edge_life.h"
#include "services/edge/control/edge_timer.h"
#include "services/edge/http/portion.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/worker/edge_vitals.h"

enum {
    TICK_MS = 50,               /* while questions are under way */
    SEND_MS = 5,                /* while parts of one wait for room in the link */
    UNSENT_BYTES_MAX = 4 << 20  /* of questions that wait for that */
};

#define NO_PLACE  UINT64_MAX   /* the number of a question that waits for one */

/* A question that has not gone to the helper in whole. */
typedef struct {
    ngx_queue_t     link;
    ask_head_t      head;
    shared_text_t  *shared;   /* behind the body; NULL: nothing */
    uint32_t        client;
    size_t          len;      /* of the body */
    u_char          body[];
} unsent_t;

/* An answer that is told from the event loop: what brings it may be a request's own turn. */
typedef struct {
    ngx_queue_t  link;
    uint64_t     number;
    ask_told_t   told;
    size_t       len;
    u_char       body[];
} answer_t;

static asks_t       asks;
static ask_waits_t  waits;
static ngx_queue_t  small, large, answers;   /* small: unsent ones that are one part each */
static size_t       unsent_bytes;
static ngx_event_t  tick, telling;
static ngx_uint_t   there, is_made;

static void begin_waiting(void);


/* ---- to the helper ---- */

static void
drop_unsent(unsent_t *question)
{
    ngx_queue_remove(&question->link);
    unsent_bytes -= question->len + shared_text_leave(question->shared, SHARED_UNSENT);
    shared_text_unref(&question->shared);
    free(question);
}


static void
forget_in(ngx_queue_t *list, uint64_t number)
{
    unsent_t     *question;
    ngx_queue_t  *q;

    for (q = ngx_queue_head(list); q != ngx_queue_sentinel(list); q = ngx_queue_next(q)) {
        question = ngx_queue_data(q, unsent_t, link);
        if (question->head.number == number) {
            drop_unsent(question);
            return;
        }
    }
}


/* Its time was over before it had gone in whole. */
static void
forget_unsent(uint64_t number)
{
    forget_in(&small, number);
    forget_in(&large, number);
}


static ngx_uint_t
has_unsent(void)
{
    return !ngx_queue_empty(&small) || !ngx_queue_empty(&large);
}


/* Bytes that wait to be sent: an account's, a client's, and its network's. */
typedef struct {
    size_t  own, client, network;
} bytes_of_t;


static void
add_bytes(const ngx_queue_t *list, const ask_who_t *who, bytes_of_t *sum)
{
    size_t        bytes;
    unsent_t     *question;
    ngx_queue_t  *q;

    for (q = ngx_queue_head(list); q != ngx_queue_sentinel(list); q = ngx_queue_next(q)) {
        question = ngx_queue_data(q, unsent_t, link);
        bytes = question->len + shared_text_part(question->shared, SHARED_UNSENT);
        if (ngx_strlen(question->head.account) == who->account_len
            && ngx_memcmp(question->head.account, who->account, who->account_len) == 0)
        {
            sum->own += bytes;
        }
        sum->client += question->client == who->client ? bytes : 0;
        sum->network += portion_same_network(question->client, who->client) ? bytes : 0;
    }
}


/* One part of it. NGX_OK | NGX_AGAIN: there is no room now | NGX_ERROR: there is no helper. */
static ngx_int_t
send_part(unsent_t *question)
{
    ngx_int_t         rc;
    ngx_str_t         frames[2];
    ask_head_t       *head = &question->head;
    static u_char     both[ASK_PART_MAX];
    const ask_body_t  body = { question->body, question->len, question->shared };

    frames[0].data = (u_char *) head;
    frames[0].len = sizeof(*head);
    frames[1].len = ask_body_part(&body, head->offset, both, (const u_char **) &frames[1].data);
    rc = edge_life_send(LINK_ASK, frames, 2);
    if (rc == NGX_OK) {
        head->offset += frames[1].len;
    }
    return rc;
}


/* Small ones first, in their order, then the large ones one after the other: what most requests
 * wait for does not wait for somebody's long lists. */
static ngx_int_t
send_unsent(void)
{
    ngx_int_t   rc = NGX_OK;
    unsent_t   *question;

    while (rc == NGX_OK && has_unsent()) {
        question = ngx_queue_data(ngx_queue_head(ngx_queue_empty(&small) ? &large : &small),
                                  unsent_t, link);
        rc = send_part(question);
        if (rc == NGX_OK && question->head.offset == question->head.total) {
            drop_unsent(question);
        }
    }
    return rc;
}


/* ---- answers ---- */

/* It is told in the next turn of the event loop; without memory, when its time is over. */
static void
post_answer(const ask_told_t *told, const void *body, size_t len)
{
    answer_t  *answer = malloc(sizeof(*answer) + len);

    if (answer == NULL) {
        return;
    }
    answer->number = told->number;
    answer->told = *told;
    answer->len = len;
    ngx_memcpy(answer->body, body, len);
    ngx_queue_insert_tail(&answers, &answer->link);
    ngx_post_event(&telling, &ngx_posted_events);
}


static void
tell_asker(asker_t *asker, const ask_told_t *told, const u_char *body, size_t len)
{
    msgpack_unpacked  read;
    ask_answer_t      answer = { told->code, NULL, told->msg };

    edge_vitals(ngx_worker)->asks_unanswered += told->code < 0;
    msgpack_unpacked_init(&read);
    if (told->code == 0) {
        if (msgpack_unpack_next(&read, (const char *) body, len, NULL) == MSGPACK_UNPACK_SUCCESS
            && read.data.type == MSGPACK_OBJECT_MAP)
        {
            answer.body = &read.data;
        } else {
            answer.code = ASK_LATE;   /* no memory for it */
        }
    }
    asker->number = 0;
    asker->answered(asker, &answer);
    msgpack_unpacked_destroy(&read);
}


static void
on_telling(ngx_event_t *ev)
{
    asker_t   *asker;
    answer_t  *answer;

    (void) ev;
    while (!ngx_queue_empty(&answers)) {
        answer = ngx_queue_data(ngx_queue_head(&answers), answer_t, link);
        ngx_queue_remove(&answer->link);
        asker = asks_end(&asks, answer->number);
        if (asker) {
            tell_asker(asker, &answer->told, answer->body, answer->len);
        }
        free(answer);
    }
    begin_waiting();
}


static void
end_late(uint64_t number, int code)
{
    asker_t     *asker;
    ask_told_t   told;

    forget_unsent(number);
    asker = asks_end(&asks, number);
    if (asker) {
        ask_told_init(&told, number, code, "", 0);
        tell_asker(asker, &told, NULL, 0);
    }
}


/* Those that found no place in their time. */
static void
end_waiting(int64_t now)
{
    asker_t     *asker;
    ask_told_t   told;

    while ((asker = ask_waits_late(&waits, now)) != NULL) {
        ask_told_init(&told, 0, ASK_NOBODY, "", 0);
        tell_asker(asker, &told, NULL, 0);
    }
}


static void
on_tick(ngx_event_t *ev)
{
    uint64_t  number;

    while ((number = asks_late(&asks, ngx_current_msec)) != 0) {
        end_late(number, ASK_LATE);
    }
    end_waiting(ngx_current_msec);
    (void) send_unsent();   /* which makes room for those that wait */
    begin_waiting();
    if ((asks.count || waits.count) && !ev->timer_set) {
        ngx_add_timer(ev, has_unsent() ? SEND_MS : TICK_MS);
    }
}


/* ---- the worker's ---- */

static void
make_all(void)
{
    if (is_made) {
        return;
    }
    is_made = 1;
    asks.client_percent = waits.client_percent = edge_conf()->client_portion;
    waits.account_percent = edge_conf()->account_portion;
    ngx_queue_init(&small);
    ngx_queue_init(&large);
    ngx_queue_init(&answers);
    edge_timer_start(&tick, on_tick, ngx_cycle->log, 0);
    edge_timer_start(&telling, on_telling, ngx_cycle->log, 0);
    tick.cancelable = 0;   /* a worker does not end while somebody waits */
}


static ngx_uint_t
has_bytes(const ask_who_t *who, const ask_body_t *body)
{
    size_t  len = body->len + shared_text_cost(body->shared, SHARED_UNSENT);
    size_t  left = UNSENT_BYTES_MAX - ngx_min(unsent_bytes, UNSENT_BYTES_MAX);
    size_t  percent = edge_conf()->client_portion;

    bytes_of_t  has = { 0, 0, 0 };

    add_bytes(&small, who, &has);
    add_bytes(&large, who, &has);
    return unsent_bytes == 0
           || (portion_allows(has.own, len, UNSENT_BYTES_MAX, left, edge_conf()->account_portion)
               && (who->client == 0
                   || (portion_allows(has.client, len, UNSENT_BYTES_MAX, left, percent)
                       && (has.network == 0
                           || portion_network_allows(has.network, has.client, len,
                                                     UNSENT_BYTES_MAX, left, percent)))));
}


static unsent_t *
new_question(const ask_who_t *who, const ask_body_t *body)
{
    unsent_t  *question = malloc(sizeof(*question) + body->len);

    if (question) {
        ngx_memcpy(question->body, body->bytes, body->len);
        question->len = body->len;
        question->client = who->client;
        question->shared = shared_text_ref(body->shared);
    }
    return question;
}


/* Behind those that wait; it may go at once. */
static void
send_question(unsent_t *question)
{
    unsent_bytes += question->len + shared_text_enter(question->shared, SHARED_UNSENT);
    ngx_queue_insert_tail(question->head.total > ASK_PART_MAX ? &large : &small,
                          &question->link);
    (void) send_unsent();   /* where there is no helper, edge_ask_restart ends it */
    edge_vitals(ngx_worker)->asks++;
    if (!tick.timer_set || has_unsent()) {
        ngx_add_timer(&tick, has_unsent() ? SEND_MS : TICK_MS);
    }
}


/* It has a place. NGX_OK | NGX_BUSY: there is no memory. */
static ngx_int_t
begin_question(uint64_t number, const ask_who_t *who, const char *verb, const ask_body_t *body)
{
    unsent_t  *question = new_question(who, body);

    if (question == NULL) {
        return NGX_BUSY;
    }
    if (!ask_head_init(&question->head, number, verb, who->account, who->account_len,
                       ask_body_total(body)))
    {
        shared_text_unref(&question->shared);
        free(question);
        return NGX_BUSY;
    }
    question->head.left_ms = who->until_ms - (int64_t) ngx_current_msec;
    ngx_memcpy(question->head.request, ((asker_t *) who->whose)->request, ASK_REQUEST_SIZE);
    send_question(question);
    return NGX_OK;
}


/* Places may be free now, of whom others waited for. Whoever cannot be sent is over at its time. No
 * more leave the queue than the link has taken, but for one. */
static void
begin_waiting(void)
{
    asker_t     *asker;
    ask_who_t    who;
    ask_body_t   body;
    ask_wait_t  *wait;

    while (there && unsent_bytes < UNSENT_BYTES_MAX
           && (wait = ask_waits_take(&waits, &asks)) != NULL)
    {
        asker = wait->whose;
        asker->number = wait->number;
        who = (ask_who_t) { wait->whose, wait->account, wait->account_len, wait->client,
                            wait->kind, wait->until_ms };
        body = (ask_body_t) { wait->body, wait->len, wait->shared };
        (void) begin_question(wait->number, &who, wait->verb, &body);
        ask_wait_free(wait);
    }
}


/* It waits for a place, if it may. */
static ngx_int_t
wait_for_place(asker_t *asker, const ask_who_t *who, const char *verb, const ask_body_t *body)
{
    if (!ask_waits_add(&waits, who, verb, body)) {
        return NGX_BUSY;
    }
    asker->number = NO_PLACE;
    if (!tick.timer_set) {
        ngx_add_timer(&tick, TICK_MS);
    }
    return NGX_OK;
}


void
edge_ask_for(asker_t *asker, const char *request_id)
{
    (void) ngx_cpystrn((u_char *) asker->request, (u_char *) request_id, ASK_REQUEST_SIZE);
}


ngx_int_t
edge_ask_kind(asker_t *asker, unsigned kind, const char *verb, const ngx_str_t *account,
    uint32_t client, const ask_body_t *body, ngx_msec_t timeout)
{
    uint64_t   number;
    ask_who_t  who = { asker, (char *) account->data, account->len, client, kind,
                       ngx_current_msec + ngx_min(timeout, (ngx_msec_t) ASKS_TIMEOUT_MAX_MS) };

    make_all();
    if (!there || asker->number || ask_body_total(body) > ASK_BODY_MAX) {
        return NGX_DECLINED;
    }
    number = has_bytes(&who, body)
             ? asks_begin(&asks, asker, who.account, who.account_len, client, who.kind,
                          who.until_ms)
             : 0;
    if (number == 0) {
        return wait_for_place(asker, &who, verb, body);
    }
    if (begin_question(number, &who, verb, body) != NGX_OK) {
        (void) asks_end(&asks, number);
        return NGX_BUSY;
    }
    asker->number = number;
    return NGX_OK;
}


ngx_uint_t
edge_ask_has_room(const ngx_str_t *account, uint32_t client, unsigned kind)
{
    ask_who_t         who = { NULL, (char *) account->data, account->len, client, kind, 0 };
    const ask_body_t  empty = { "", 0, NULL };

    return asks_have_room(&asks, who.account, who.account_len, client, who.kind)
           || ask_waits_have_room(&waits, &who, &empty);
}


void
edge_ask_leave(asker_t *asker)
{
    if (asker->number == NO_PLACE) {
        ask_waits_leave(&waits, asker);
    } else {
        asks_leave(&asks, asker->number);
    }
    asker->number = 0;
}


ngx_uint_t
edge_ask_is_there(void)
{
    return there;
}


/* ---- from the helper ---- */

static void
set_there(ngx_uint_t is_there)
{
    there = is_there;
    edge_vitals(ngx_worker)->identity_there = is_there;
}


void
edge_ask_message(const link_message_t *message)
{
    ask_told_t  told;

    make_all();
    if (message->kind == LINK_ASK_THERE) {
        set_there(message->n == 1 && message->frames[0].len == 1 && message->frames[0].data[0]);
    } else if (message->n == 2
               && ask_told_read(&told, message->frames[0].data, message->frames[0].len))
    {
        post_answer(&told, message->frames[1].data, message->frames[1].len);
    }
}


/* What was asked may be done still, and nobody will say so. */
void
edge_ask_restart(void)
{
    size_t      i;
    ask_told_t  told;

    set_there(0);
    for (i = 0; i < ASKS_MAX && asks.count; i++) {
        if (asks.list[i].number) {
            forget_unsent(asks.list[i].number);
            ask_told_init(&told, asks.list[i].number, ASK_LATE, "", 0);
            post_answer(&told, "", 0);
        }
    }
    ask_waits_expire(&waits);
}
