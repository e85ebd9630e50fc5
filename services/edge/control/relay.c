#include "services/edge/control/relay.h"
#include "common/base/err.h"
#include "common/base/invariant.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(RELAY_COPIES_MAX <= 8 * sizeof(unsigned), "a bit for each copy");

typedef struct relay_item {
    relay_question_t question; /* number 0: a free place */
    int copy;                  /* that was asked last and may answer; -1: it goes to none now */
    unsigned asked;            /* copies that may answer */
    unsigned tried;            /* copies that were asked */
    bool was_sent;             /* once, to anybody */
    int64_t until_ms, sent_ms;
    int64_t idle_ms; /* since when it goes to no copy */
} relay_item_t;

struct relay {
    const relay_ports_t *ports;
    void *context;
    int copies, next;
    int64_t heard_ms[RELAY_COPIES_MAX];
    int64_t passed_ms[RELAY_COPIES_MAX]; /* until then it is the last choice */
    int64_t kept_ms[RELAY_COPIES_MAX];   /* the same for questions that are for one copy */
    relay_item_t items[RELAY_QUESTIONS_MAX];
    size_t count;
    struct { /* the question whose parts come */
        ask_head_t head;
        char *body; /* NULL: none */
        size_t len;
    } arriving;
};

relay_t *relay_new(int copies, const relay_ports_t *ports, void *context)
{
    relay_t *self = calloc(1, sizeof(*self));

    INVARIANT(copies >= 0 && copies <= RELAY_COPIES_MAX);
    if (self) {
        self->ports = ports;
        self->context = context;
        self->copies = copies;
    }
    return self;
}

void relay_destroy(relay_t **self_p)
{
    relay_t *self = *self_p;

    if (!self)
        return;
    for (size_t i = 0; i < RELAY_QUESTIONS_MAX; i++)
        free(self->items[i].question.body);
    free(self->arriving.body);
    free(self);
    *self_p = NULL;
}

size_t relay_count(const relay_t *self)
{
    return self->count;
}

/* A provider takes a code once, and may end what it gave for one that comes twice; what is made for
 * a code of ours goes to who asked first; and a LogoutRequest or a logout token is taken once: who
 * asks again while the first copy waits for edges hears that it was used. So these go to another
 * copy only where the connection to the one that has them is gone. */
static bool is_for_one(const relay_question_t *question)
{
    return !strcmp(question->verb, "sign_in.callback") || !strcmp(question->verb, "sign_in.redeem")
           || !strcmp(question->verb, "sign_in.saml_logout")
           || !strcmp(question->verb, "sign_in.logout");
}

/* ---- the end of a question ---- */

static void end_item(relay_t *self, relay_item_t *item, const ask_told_t *told, const void *body,
                     size_t len)
{
    INVARIANT(self->count > 0);
    self->count--;
    free(item->question.body);
    memset(item, 0, sizeof(*item));
    self->ports->answer(self->context, told, body, len);
}

static void end_unanswered(relay_t *self, relay_item_t *item)
{
    ask_told_t told;

    ask_told_init(&told, item->question.number, item->was_sent ? RELAY_LATE : RELAY_NOBODY, "", 0);
    end_item(self, item, &told, "", 0);
}

/* ---- to a copy ---- */

static unsigned bit(int copy)
{
    INVARIANT(copy >= 0 && copy < RELAY_COPIES_MAX);
    return 1u << copy;
}

/* How good a copy is for a question. */
enum { HEARD, KEPT, PASSED, NONE };

/* One that let a question pass lately is the last choice. A provider that is slow says nothing of
 * the copy that waits for it, so questions for one copy count for their kind alone: those would
 * wait for all of their time at a copy that stands still. */
static int rank_of(const relay_t *self, int copy, bool is_alone, int64_t now_ms)
{
    if (now_ms < self->passed_ms[copy])
        return PASSED;
    return is_alone && now_ms < self->kept_ms[copy] ? KEPT : HEARD;
}

/* The best of those that are connected, and not among those, in turn. -1: none. */
static int choose_copy(relay_t *self, const relay_item_t *item, unsigned except, int64_t now_ms)
{
    bool is_alone = is_for_one(&item->question);
    int best = -1, best_rank = NONE;

    for (int n = 0; n < self->copies && best_rank > HEARD; n++) {
        int copy = (self->next + n) % self->copies;
        int rank = rank_of(self, copy, is_alone, now_ms);

        if (except & bit(copy) || rank >= best_rank || !self->ports->is_there(self->context, copy))
            continue;
        best = copy;
        best_rank = rank;
    }
    if (best_rank < PASSED)
        self->next = (best + 1) % self->copies;
    return best;
}

/* The copy may not answer any more. False: no other one has the question. */
static bool leave_copy(relay_item_t *item, int copy)
{
    item->asked &= ~bit(copy);
    if (item->copy == copy)
        item->copy = item->asked ? __builtin_ctz(item->asked) : -1;
    return item->asked != 0;
}

static bool send_to(relay_t *self, relay_item_t *item, int copy, int64_t now_ms)
{
    if (copy < 0
        || !self->ports->send(self->context, copy, &item->question, item->until_ms - now_ms))
        return false;
    item->copy = copy;
    item->asked |= bit(copy);
    item->tried |= bit(copy);
    item->was_sent = true;
    item->sent_ms = now_ms;
    return true;
}

/* It goes to no copy now: to one, or it waits for one. */
static void send_anywhere(relay_t *self, relay_item_t *item, int64_t now_ms)
{
    int copy = choose_copy(self, item, item->tried, now_ms);

    if (copy < 0)
        copy = choose_copy(self, item, 0, now_ms);
    if (!send_to(self, item, copy, now_ms) && now_ms - item->idle_ms >= RELAY_HOPE_MS)
        end_unanswered(self, item);
}

/* ---- from the worker ---- */

static void drop_arriving(relay_t *self)
{
    free(self->arriving.body);
    self->arriving.body = NULL;
    self->arriving.len = 0;
}

static relay_item_t *free_item(relay_t *self)
{
    for (size_t i = 0; i < RELAY_QUESTIONS_MAX; i++)
        if (!self->items[i].question.number)
            return &self->items[i];
    return NULL;
}

/* body is the item's, or freed. */
static void begin_item(relay_t *self, const ask_head_t *head, char *body, int64_t now_ms)
{
    relay_item_t *item = free_item(self);
    ask_told_t told;

    if (!item) {
        free(body);
        ask_told_init(&told, head->number, RELAY_NOBODY, "", 0);
        self->ports->answer(self->context, &told, "", 0);
        return;
    }
    self->count++;
    item->question.number = head->number;
    self->ports->make_id(self->context, head, item->question.id);
    memcpy(item->question.verb, head->verb, sizeof(head->verb));
    memcpy(item->question.account, head->account, sizeof(head->account));
    item->question.body = body;
    item->question.len = head->total;
    item->copy = -1;
    item->until_ms = now_ms + head->left_ms;
    item->idle_ms = now_ms;
    send_anywhere(self, item, now_ms);
}

/* A question in one part may come between the parts of a long one. */
static void take_whole(relay_t *self, const ask_head_t *head, const void *part, int64_t now_ms)
{
    char *body = malloc((size_t)head->total + 1);

    if (!body)
        return; /* its worker stops waiting when its time is over */
    memcpy(body, part, head->total);
    begin_item(self, head, body, now_ms);
}

void relay_take(relay_t *self, const ask_head_t *head, const void *part, size_t len, int64_t now_ms)
{
    char *body;

    if (head->offset == 0 && len == head->total) {
        take_whole(self, head, part, now_ms);
        return;
    }
    if (head->offset == 0) {
        drop_arriving(self);
        self->arriving.head = *head;
        self->arriving.body = malloc((size_t)head->total + 1);
    }
    if (!self->arriving.body || self->arriving.head.number != head->number)
        return; /* as above */
    if (self->arriving.head.total != head->total || self->arriving.len != head->offset) {
        drop_arriving(self);
        return;
    }
    INVARIANT(len <= head->total - head->offset);
    memcpy(self->arriving.body + self->arriving.len, part, len);
    self->arriving.len += len;
    self->arriving.head.left_ms = head->left_ms;
    if (self->arriving.len < head->total)
        return;
    body = self->arriving.body;
    self->arriving.body = NULL;
    drop_arriving(self);
    begin_item(self, &self->arriving.head, body, now_ms);
}

/* ---- from the copies ---- */

static relay_item_t *item_of(relay_t *self, uint64_t number)
{
    for (size_t i = 0; number && i < RELAY_QUESTIONS_MAX; i++)
        if (self->items[i].question.number == number)
            return &self->items[i];
    return NULL;
}

uint64_t relay_heard(relay_t *self, int copy, const void *id, size_t len, int64_t now_ms)
{
    INVARIANT(copy >= 0 && copy < self->copies);
    self->heard_ms[copy] = now_ms;
    self->passed_ms[copy] = self->kept_ms[copy] = 0;
    for (size_t i = 0; i < RELAY_QUESTIONS_MAX; i++) {
        const relay_question_t *question = &self->items[i].question;

        if (question->number && strlen(question->id) == len && !memcmp(question->id, id, len))
            return question->number;
    }
    return 0;
}

/* One that cannot do it now says nothing of other copies: they may do it, or be doing it. */
static bool is_passed_over(relay_t *self, relay_item_t *item, int copy, int code, int64_t now_ms)
{
    if (code != ERR_BUSY && code != ERR_MAINTENANCE)
        return false;
    if (leave_copy(item, copy))
        return true;
    return !is_for_one(&item->question)
           && send_to(self, item, choose_copy(self, item, item->tried, now_ms), now_ms);
}

void relay_reply(relay_t *self, int copy, const ask_told_t *told, const void *body, size_t len,
                 int64_t now_ms)
{
    relay_item_t *item = item_of(self, told->number);

    if (item && item->tried & bit(copy) && !is_passed_over(self, item, copy, told->code, now_ms))
        end_item(self, item, told, body, len);
}

void relay_lost(relay_t *self, int copy, int64_t now_ms)
{
    for (size_t i = 0; i < RELAY_QUESTIONS_MAX; i++) {
        relay_item_t *item = &self->items[i];

        if (!item->question.number || !(item->asked & bit(copy)) || leave_copy(item, copy))
            continue;
        item->idle_ms = now_ms;
        send_anywhere(self, item, now_ms);
    }
}

/* ---- time ---- */

/* Is the copy that has it so silent that another one is asked, too? */
static void look_after(relay_t *self, relay_item_t *item, int64_t now_ms)
{
    bool is_alone = is_for_one(&item->question);
    int copy = item->copy, other;

    if (now_ms - item->sent_ms < RELAY_RESEND_MS)
        return;
    if (self->heard_ms[copy] < item->sent_ms)
        (is_alone ? self->kept_ms : self->passed_ms)[copy] = now_ms + RELAY_PASS_MS;
    if (is_alone)
        return;
    other = choose_copy(self, item, item->tried, now_ms);
    if (other >= 0 && now_ms >= self->passed_ms[other])
        (void)send_to(self, item, other, now_ms);
}

void relay_tick(relay_t *self, int64_t now_ms)
{
    for (size_t i = 0; self->count && i < RELAY_QUESTIONS_MAX; i++) {
        relay_item_t *item = &self->items[i];

        if (!item->question.number)
            continue;
        if (now_ms >= item->until_ms)
            end_unanswered(self, item);
        else if (item->copy < 0)
            send_anywhere(self, item, now_ms);
        else
            look_after(self, item, now_ms);
    }
}
