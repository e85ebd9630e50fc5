#include "common/resource/waits.h"
#include "common/base/cleanup.h"
#include "common/base/invariant.h"
#include "common/base/memory.h"
#include "common/bus/shares.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

/* For the queue: what was admitted is not refused on its way. */
static const shares_bounds_t boundless = {
    .own = SIZE_MAX, .own_bytes = SIZE_MAX, .all = SIZE_MAX, .all_bytes = SIZE_MAX};

/* Bounds of what waits: in all, of an owner, of a place. */
typedef struct room {
    size_t all, own, place, all_bytes, own_bytes, place_bytes;
} room_t;

static const room_t rooms[WAIT_KINDS] = {
    [WAIT_FETCHES] = {WAITS_ALL, WAITS_OWN, WAITS_PLACE, WAITS_ALL_BYTES, WAITS_OWN_BYTES,
                      WAITS_PLACE_BYTES},
    [WAIT_ASKS] = {WAITS_ASKED_ALL, WAITS_ASKED_OWN, WAITS_ASKED_PLACE, WAITS_ASKED_ALL_BYTES,
                   WAITS_ASKED_OWN_BYTES, WAITS_ASKED_PLACE_BYTES},
};

typedef struct lane {
    shares_t *queue; /* those whose request is not made yet */
    unsigned flying, calls;
    size_t count, bytes;
} lane_t;

struct waits {
    lane_t lanes[WAIT_KINDS];
    wait_t *first;
    size_t answer_bytes;
    silences_t *silences;
};

static void make_lane(lane_t *self, unsigned calls, unsigned of_one, unsigned of_place,
                      unsigned percent)
{
    self->queue = memory_need(shares_new(NULL), "the queue of requests");
    self->calls = calls;
    shares_turn_by_first_word(self->queue);
    shares_bound_held(self->queue, of_one);
    shares_bound_groups(self->queue, of_place, percent);
}

waits_t *waits_new(unsigned calls, unsigned calls_of_one)
{
    waits_t *self = memory_new(sizeof(*self), "the requests that wait");
    unsigned of_server = (3 * calls_of_one + 3) / 4;

    self->silences =
        memory_need(calloc(1, sizeof(*self->silences)), "the places that do not answer");
    make_lane(&self->lanes[WAIT_FETCHES], calls, calls_of_one, of_server,
              of_server < WAITS_URL_LEAST ? 0 : WAITS_URL_PERCENT);
    make_lane(&self->lanes[WAIT_ASKS], WAITS_ASKING, WAITS_ASKING_OWN, WAITS_ASKING_PLACE, 0);
    return self;
}

void waits_destroy(waits_t **self_p)
{
    waits_t *self = *self_p;

    if (!self)
        return;
    for (int kind = 0; kind < WAIT_KINDS; kind++)
        shares_destroy(&self->lanes[kind].queue);
    while (self->first) {
        wait_t *wait = self->first;

        waits_forget(self, &wait);
    }
    free(self->silences);
    free(self);
    *self_p = NULL;
}

/* What an owner has waiting of one kind, and a place of it. */
typedef struct taken {
    size_t own, own_bytes, place, place_bytes;
} taken_t;

/* The bounds of all kinds bound the list. */
static taken_t count_taken(const waits_t *self, const wait_t *like)
{
    taken_t out = {0};

    for (const wait_t *wait = self->first; wait; wait = wait->next) {
        if (wait->kind != like->kind || strcmp(wait->owner, like->owner) != 0)
            continue;
        out.own++;
        out.own_bytes += wait->counted;
        if (strcmp(wait->place, like->place) != 0)
            continue;
        out.place++;
        out.place_bytes += wait->counted;
    }
    return out;
}

/* All that it holds while it waits. */
static size_t weight_of(const wait_t *wait)
{
    size_t weight = wait->bytes + wait->state_bytes + wait->fetch.body_bytes
                    + memory_json_weight(wait->question)
                    + (wait->fetch.url ? strlen(wait->fetch.url) : 0);

    return weight > WAITS_LEAST_BYTES ? weight : WAITS_LEAST_BYTES;
}

/* Is there room for that many bytes more, and where it is new, for another one? */
static int find_room(const waits_t *self, const wait_t *wait, size_t more)
{
    size_t one = !wait->admitted;
    const room_t *room = &rooms[wait->kind];
    const lane_t *lane = &self->lanes[wait->kind];
    taken_t taken;

    if (lane->count + one > room->all || lane->bytes + more > room->all_bytes)
        return -EAGAIN;
    taken = count_taken(self, wait);
    return taken.own + one > room->own || taken.own_bytes + more > room->own_bytes
                   || taken.place + one > room->place
                   || taken.place_bytes + more > room->place_bytes
               ? -EDQUOT
               : 0;
}

static void count_in(waits_t *self, const wait_t *wait)
{
    self->lanes[wait->kind].count++;
    self->lanes[wait->kind].bytes += wait->counted;
}

static void count_out(waits_t *self, const wait_t *wait)
{
    INVARIANT(self->lanes[wait->kind].count > 0);
    self->lanes[wait->kind].count--;
    self->lanes[wait->kind].bytes -= wait->counted;
}

/* Of a URL: scheme, host and port as they are written. */
static size_t origin_bytes(const char *url)
{
    const char *host = strstr(url, "://");

    return host ? (size_t)(host - url) + 3 + strcspn(host + 3, "/?#") : strcspn(url, "/?#");
}

/* URLs may have kilobytes, and what differs is at their ends. */
static void hash_url(const wait_t *wait, const char *url, size_t len, char out[WAIT_TARGET_SIZE])
{
    unsigned char hash[crypto_generichash_BYTES];
    char hex[2 * sizeof(hash) + 1];

    crypto_generichash(hash, sizeof(hash), (const unsigned char *)url, len, NULL, 0);
    sodium_bin2hex(hex, sizeof(hex), hash, sizeof(hash));
    snprintf(out, WAIT_TARGET_SIZE, "%s #%.32s", wait->owner, hex);
}

/* What it waits for now. */
static void set_place(wait_t *wait)
{
    const char *url = wait->fetch.url;

    wait->target[0] = wait->path[0] = '\0';
    if (url) {
        hash_url(wait, url, strlen(url), wait->target);
        hash_url(wait, url, strcspn(url, "?#"), wait->path);
    }
    wait->kind = *wait->verb ? WAIT_ASKS : WAIT_FETCHES;
    if (*wait->verb)
        snprintf(wait->place, sizeof(wait->place), "%s %s", wait->owner, wait->verb);
    else if (url)
        snprintf(wait->place, sizeof(wait->place), "%s %.*s", wait->owner, (int)origin_bytes(url),
                 url);
    else
        snprintf(wait->place, sizeof(wait->place), "%s", wait->owner);
}

static void drop_answer(waits_t *self, wait_t *wait)
{
    self->answer_bytes -= wait->answer_counted;
    wait->answer_counted = 0;
}

int waits_admit(waits_t *self, wait_t *wait)
{
    size_t weight = weight_of(wait), more = weight > wait->counted ? weight - wait->counted : 0;
    int r;

    if (wait->admitted)
        count_out(self, wait);
    set_place(wait);
    if (wait->admitted)
        count_in(self, wait);
    r = more && !wait->goes_on ? find_room(self, wait, more) : 0;
    wait->until_ms = wait->pause_ms; /* the worker has given it back */
    drop_answer(self, wait);
    if (r)
        return r;
    wait->counted += more;
    if (wait->admitted) {
        self->lanes[wait->kind].bytes += more;
        return 0;
    }
    count_in(self, wait);
    wait->admitted = true;
    wait->next = self->first;
    if (self->first)
        self->first->previous = wait;
    self->first = wait;
    return 0;
}

/* Whose turns it has among its account's, whose name is the first word: those of its URL, or of all
 * its place. */
static const char *turn_of(const wait_t *wait)
{
    return *wait->path ? wait->path : wait->place;
}

void waits_queue(waits_t *self, wait_t *wait)
{
    int r = shares_put_grouped(self->lanes[wait->kind].queue, turn_of(wait), wait->place,
                               wait->owner, &boundless, 0, wait);

    INVARIANT(!r); /* no bounds apply, so only memory can be missing */
}

static wait_t *next_of(waits_t *self, lane_t *lane)
{
    bool has_room = lane->flying < lane->calls && self->answer_bytes < WAITS_ANSWERS_BYTES;
    wait_t *wait = has_room ? shares_take(lane->queue) : NULL;

    lane->flying += wait != NULL;
    if (wait)
        wait->flying = true;
    return wait;
}

wait_t *waits_next(waits_t *self)
{
    wait_t *wait = next_of(self, &self->lanes[WAIT_ASKS]);

    return wait ? wait : next_of(self, &self->lanes[WAIT_FETCHES]);
}

/* Has a request that is under way found its server? Then that is not what keeps it waiting. */
static bool is_reached(const waits_t *self, const char *place)
{
    for (const wait_t *wait = self->first; wait; wait = wait->next)
        if (wait->flying && wait->reached && !strcmp(wait->place, place))
            return true;
    return false;
}

bool waits_is_silent(waits_t *self, const wait_t *wait, int64_t now_ms)
{
    unsigned timeout_ms = wait->fetch.timeout_ms;

    if (silences_has(self->silences, wait->place, now_ms, timeout_ms)) {
        if (!is_reached(self, wait->place))
            return true;
        silences_clear(self->silences, wait->place);
    }
    if (!silences_has(self->silences, wait->target, now_ms, timeout_ms))
        return false;
    silences_unasked(self->silences, wait->place, now_ms);
    return true;
}

void waits_note_end(waits_t *self, const wait_t *wait, const outbound_end_t *end, int64_t now_ms)
{
    if (!end) {
        silences_unasked(self->silences, wait->place, now_ms);
        silences_unasked(self->silences, wait->target, now_ms);
    } else if (*end != OUTBOUND_TIMEOUT) {
        silences_clear(self->silences, wait->place);
        silences_clear(self->silences, wait->target);
    } else if (wait->reached) {
        silences_clear(self->silences, wait->place);
        silences_note(self->silences, wait->target, now_ms, wait->fetch.timeout_ms);
    } else {
        silences_note(self->silences, wait->place, now_ms, wait->fetch.timeout_ms);
        silences_unasked(self->silences, wait->target, now_ms);
    }
}

static bool same_headers(const char *const *one, const char *const *other)
{
    for (; *one && *other; one++, other++)
        if (strcmp(*one, *other) != 0)
            return false;
    return !*one && !*other;
}

static bool is_plain_get(const outbound_request_t *fetch)
{
    return fetch->url && !fetch->body && (!fetch->method || !strcmp(fetch->method, "GET"));
}

static bool is_same(const outbound_request_t *one, const outbound_request_t *other)
{
    return is_plain_get(one) && is_plain_get(other) && !strcmp(one->url, other->url)
           && one->may_be_plain == other->may_be_plain && one->redirects == other->redirects
           && one->max_bytes == other->max_bytes && same_headers(one->headers, other->headers);
}

bool waits_follow(waits_t *self, wait_t *wait)
{
    for (const wait_t *other = self->first; other; other = other->next) {
        if (!other->flying || other == wait || other->kind != WAIT_FETCHES
            || strcmp(other->place, wait->place) != 0 || !is_same(&other->fetch, &wait->fetch))
            continue;
        waits_fetched(self, wait);
        wait->leader = other;
        return true;
    }
    return false;
}

wait_t *waits_follower(waits_t *self, const wait_t *leader, const outbound_answer_t *answer,
                       bool *ret_shares)
{
    for (wait_t *wait = self->first; wait; wait = wait->next) {
        if (wait->leader != leader)
            continue;
        wait->leader = NULL;
        *ret_shares = answer->end == OUTBOUND_TIMEOUT
                          ? leader->fetch.timeout_ms >= wait->fetch.timeout_ms
                          : self->answer_bytes + answer->body_bytes <= WAITS_ANSWERS_BYTES;
        return wait;
    }
    return NULL;
}

wait_t *waits_late_follower(waits_t *self, int64_t now_ms)
{
    for (wait_t *wait = self->first; wait; wait = wait->next)
        if (wait->leader && wait_left_ms(wait, now_ms) <= (int64_t)wait->least_ms) {
            wait->leader = NULL;
            return wait;
        }
    return NULL;
}

void waits_answered(waits_t *self, wait_t *wait)
{
    wait->answer_counted = wait->answer.body_bytes;
    self->answer_bytes += wait->answer_counted;
}

void waits_fetched(waits_t *self, wait_t *wait)
{
    lane_t *lane = &self->lanes[wait->kind];

    INVARIANT(wait->flying && lane->flying > 0);
    wait->flying = false;
    lane->flying--;
    shares_release(lane->queue, wait->owner);
    shares_release_grouped(lane->queue, turn_of(wait), wait->place);
}

wait_t *waits_due(waits_t *self, int64_t now_ms)
{
    for (wait_t *wait = self->first; wait; wait = wait->next)
        if (wait->until_ms && wait->until_ms <= now_ms) {
            wait->until_ms = 0;
            return wait;
        }
    return NULL;
}

wait_t *waits_first(const waits_t *self)
{
    return self->first;
}

void waits_forget(waits_t *self, wait_t **wait_p)
{
    wait_t *wait = *wait_p;

    INVARIANT(wait->admitted);
    if (wait->previous)
        wait->previous->next = wait->next;
    else
        self->first = wait->next;
    if (wait->next)
        wait->next->previous = wait->previous;
    count_out(self, wait);
    drop_answer(self, wait);
    wait_free(wait_p);
}

size_t waits_count(const waits_t *self)
{
    size_t count = 0;

    for (int kind = 0; kind < WAIT_KINDS; kind++)
        count += self->lanes[kind].count;
    return count;
}
