/* Messages from edge workers to the config log: who may send them, and what they do. */
#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "common/bus/bus.h"
#include "common/resource/replog_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Remove the worker's former connection: with a new helper it connects anew, perhaps before the old
 * connection is found broken. */
static void let_its_last_go(replog_t *self, const place_t *place)
{
    for (int i = 0; i < self->places.count; i++) {
        place_t *last = &self->places.list[i];

        if (last != place && subscriber_is_live(&last->sub) && !strcmp(last->name, place->name))
            replog_let_go(self, last);
    }
}

/* A worker gets no place: it goes on serving its last revision and cannot be sent changes. While it
 * goes on asking, no change counts as live everywhere. */
static void turn_away(replog_t *self, const char *peer)
{
    self->changed = self->changed || !places_somebody_is_turned_away(&self->places);
    if (places_turn_away(&self->places, bus_mono_ms()))
        log_warn("a worker of %s finds no place at the config log, which has %d, %d for one key: "
                 "it cannot be told of changes, and none is live everywhere while it asks",
                 peer, PLACES_MAX, PLACES_KEY_MAX);
}

static void pop_text(char *out, size_t size, zmsg_t *msg)
{
    _cleanup_(free_mem) char *text = zmsg_popstr(msg);

    snprintf(out, size, "%s", text ? text : "");
}

/* hello: log id, revision, name, mark, "parts"; may_speak has checked the name. The newest hello is
 * kept until the worker's turn, because the answer costs a transaction and perhaps a snapshot. */
static void on_hello(replog_t *self, place_t *place, zmsg_t *msg)
{
    greeting_t greeting = {0};
    char has[24], extra[8];

    pop_text(greeting.log_id, sizeof(greeting.log_id), msg);
    pop_text(has, sizeof(has), msg);
    pop_text(place->name, sizeof(place->name), msg);
    pop_text(greeting.mark, sizeof(greeting.mark), msg);
    pop_text(extra, sizeof(extra), msg);
    greeting.has = strtoll(has, NULL, 10);
    greeting.parts = !strcmp(extra, "parts"); /* absent: an older edge */
    subscriber_hello(&place->sub, &greeting);
    self->changed = true; /* the worker may already serve: replies wait for it from now on */
    let_its_last_go(self, place);
}

static void ask_who(replog_t *self, const void *identity, size_t len)
{
    zmsg_t *msg = zmsg_new();

    zmsg_addmem(msg, identity, len);
    zmsg_addstr(msg, "who");
    zmsg_send(&msg, self->router);
    zmsg_destroy(&msg);
}

void replog_ask_everyone(replog_t *self)
{
    for (int i = 0; i < self->places.count; i++) {
        const place_t *place = &self->places.list[i];

        if (subscriber_is_live(&place->sub))
            ask_who(self, place->identity, place->identity_len);
    }
}

static void tell_refused(replog_t *self, zframe_t *identity, const char *name)
{
    zmsg_t *msg = zmsg_new();

    zmsg_addmem(msg, zframe_data(identity), zframe_size(identity));
    zmsg_addstr(msg, "refused");
    zmsg_addstrf(msg, "%d", ERR_PEER_NAME);
    zmsg_addstr(msg, name);
    zmsg_send(&msg, self->router);
    zmsg_destroy(&msg);
}

/* May this peer speak for the worker that it names? Only an edge's own key may, over its own
 * connection, because replies to changes wait for acknowledgements. msg: the frames after the
 * word. */
static bool may_speak(replog_t *self, zframe_t *identity, peer_t peer, const char *word,
                      zmsg_t *msg)
{
    const place_t *place = places_find(&self->places, zframe_data(identity), zframe_size(identity));
    _cleanup_(free_mem) char *name = NULL;
    char why[200];

    if (!(peer.role & socket_row(self->args->socket).who)
        || (place && strcmp(place->peer, peer.id))) {
        peer_refused(self->args->socket, peer.id, "speaks over another's connection");
        return false;
    }
    if (strcmp(word, "hello"))
        return true;
    if (zmsg_size(msg) < 3)
        return false;
    zmsg_first(msg);
    zmsg_next(msg);
    name = zframe_strdup(zmsg_next(msg));
    if (peer_name_covers(peer.name, name))
        return true;
    snprintf(why, sizeof(why), "says that it is %s", name);
    peer_refused(self->args->socket, peer.id, why);
    tell_refused(self, identity, name);
    return false;
}

/* Take the numbers of ended streams in an acknowledgement, which repeats those of recent changes.
 * NULL: none, or an older edge. Ignored for a worker that is not live. */
static void note_ended(replog_t *self, place_t *place, const char *text)
{
    ended_t ended;
    int64_t more;

    if (!subscriber_is_live(&place->sub) || !ended_read(&ended, text))
        return;
    more = ended_more(&ended, &place->ended);
    place->ended = ended;
    if (more == 0)
        return;
    self->streams_ended += more;
    self->changed = true;
    log_info("edge worker %s ended %" PRId64 " open streams that a change took away", place->name,
             more);
}

static void on_ack(replog_t *self, place_t *place, zmsg_t *msg)
{
    _cleanup_(free_mem) char *revision = zmsg_popstr(msg);
    _cleanup_(free_mem) char *log_id = zmsg_popstr(msg); /* NULL: an older edge */
    _cleanup_(free_mem) char *ended = zmsg_popstr(msg);
    _cleanup_(free_mem) char *sign = zmsg_popstr(msg); /* the same */
    bool ours = revision && (!log_id || !strcmp(log_id, self->log_id));

    place->sign = sign ? strtoll(sign, NULL, 10) : place->sign;
    if (ours)
        note_ended(self, place, ended);
    if (!subscriber_ack(&place->sub, ours ? strtoll(revision, NULL, 10) : 0))
        return;
    self->changed = true;
    if (roster_lacks(self->roster, place->name))
        self->say_ms = 0;
}

/* The place of a message's sender, taken if it says hello and has none. NULL: it has none. */
static place_t *place_of(replog_t *self, zframe_t *identity, const char *peer, bool is_hello)
{
    const void *data = zframe_data(identity);
    size_t len = zframe_size(identity);
    place_t *place = places_find(&self->places, data, len);

    if (is_hello && !(place && subscriber_is_live(&place->sub)))
        return places_take(&self->places, place, data, len, peer);
    return place;
}

/* Handle a message; msg: the frames after the word. */
static void on_word(replog_t *self, zframe_t *identity, const char *peer, const char *word,
                    zmsg_t *msg)
{
    bool is_hello = !strcmp(word, "hello");
    place_t *place = place_of(self, identity, peer, is_hello);

    if (!place && is_hello) {
        turn_away(self, peer);
        return; /* the worker repeats its hello */
    }
    if (!place) { /* known only to another copy, or to the process before this one */
        ask_who(self, zframe_data(identity), zframe_size(identity));
        return;
    }
    subscriber_hear(&place->sub, bus_mono_ms());
    if (is_hello)
        on_hello(self, place, msg);
    else if (!strcmp(word, "bye"))
        replog_let_go(self, place);
    else if (!strcmp(word, "ack"))
        on_ack(self, place, msg);
}

void replog_take_message(replog_t *self)
{
    zmsg_t *msg = zmsg_recv(self->router);
    zframe_t *identity = msg ? zmsg_pop(msg) : NULL;
    zframe_t *said = msg ? zmsg_pop(msg) : NULL;
    peer_t peer = peer_of(said);
    _cleanup_(free_mem) char *word = said ? zframe_strdup(said) : NULL;

    if (identity && word && may_speak(self, identity, peer, word, msg))
        on_word(self, identity, peer.id, word, msg);
    zframe_destroy(&said);
    zframe_destroy(&identity);
    zmsg_destroy(&msg);
}
