/* What the config log sends: entries as deltas and snapshots. */
#include "common/bus/bus.h"
#include "common/base/cleanup.h"
#include "common/codec/pack.h"
#include "common/resource/replog_internal.h"
#include "common/base/secret.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum {
    WAY_BYTES = 1 << 20,      /* queued for one connection, exceeded by one message at most */
    WAY_KEY_BYTES = 16 << 20, /* queued for all connections of one key */
    /* Size of a body's parts: small, because a message that takes long on a slow link delays
     * heartbeats, see HEARTBEAT_SILENCE_MS. */
    PART_BYTES = 64 << 10,
    PARTS_MAX = 64 /* of one body, so that all fit into the connection's queue; else larger parts */
};

/* ---- entries to wire ---- */

static void put_str(msgpack_packer *packer, const char *text)
{
    msgpack_pack_str(packer, strlen(text));
    msgpack_pack_str_body(packer, text, strlen(text));
}

/* Body: array of [kind, id, document or nil]; documents are copied as stored. A row without a kind
 * is not an entry. */
static int pack_rows(replog_t *self, const PGresult *rows, msgpack_sbuffer *out)
{
    msgpack_packer packer;
    int n = PQntuples(rows);

    if (n == 1 && PQgetisnull(rows, 0, 0))
        n = 0;
    msgpack_packer_init(&packer, out, msgpack_sbuffer_write);
    msgpack_pack_array(&packer, (size_t)n);
    for (int i = 0; i < n; i++) {
        msgpack_pack_array(&packer, 3);
        put_str(&packer, PQgetvalue(rows, i, 0));
        put_str(&packer, PQgetvalue(rows, i, 1));
        if (PQgetisnull(rows, i, 2)) {
            msgpack_pack_nil(&packer);
        } else {
            char *plain = NULL;
            size_t len;
            int r = secret_open(self->args->key, PQgetvalue(rows, i, 2), &plain, &len);

            if (r)
                return fault(r, "open a config entry: is this the master key that sealed it?");
            msgpack_sbuffer_write(out, plain, len);
            secret_free(&plain, len);
        }
    }
    return 0;
}

static transit_frame_t text_frame(const char *text)
{
    return (transit_frame_t){text, strlen(text)};
}

/* Send all parts of the body but the last, to a worker that accepts parts; head: log id, previous
 * revision, revision. *ret_at: bytes sent. */
static int send_parts(replog_t *self, place_t *place, const transit_frame_t head[3],
                      const msgpack_sbuffer *body, size_t *ret_at)
{
    transit_frame_t identity = {place->identity, place->identity_len};
    size_t most = body->size / PARTS_MAX + 1, at = 0;
    int r = 0;

    most = most > PART_BYTES ? most : PART_BYTES;
    for (; !r && place->sub.greeting.parts && body->size - at > most; at += most) {
        char offset[24];
        transit_frame_t frames[] = {text_frame("part"),      head[0],    head[1], head[2],
                                    {body->data + at, most}, {offset, 0}};

        frames[5].len = (size_t)snprintf(offset, sizeof(offset), "%zu", at);
        r = transit_send(place->way, self->router, &identity, frames, LEN(frames), most);
    }
    *ret_at = at;
    return r;
}

/* between: see replog_read_news; for deltas only. A body that could not be sent completely is sent
 * again from its beginning. */
static int send_frames(replog_t *self, place_t *place, const char *word, int64_t previous,
                       int64_t revision, const msgpack_sbuffer *body, const char *between)
{
    char before[24], now[24], size[24];
    transit_frame_t identity = {place->identity, place->identity_len};
    transit_frame_t frames[7] = {text_frame(word), text_frame(self->log_id)};
    size_t n = 4, at = 0;
    int r = 0;

    snprintf(before, sizeof(before), "%" PRId64, previous);
    snprintf(now, sizeof(now), "%" PRId64, revision);
    frames[2] = text_frame(before);
    frames[3] = text_frame(now);
    if (body)
        r = send_parts(self, place, frames + 1, body, &at);
    if (r)
        return r;
    if (body)
        frames[n++] = (transit_frame_t){body->data + at, body->size - at};
    if (between || at)
        frames[n++] = text_frame(between ? between : "");
    if (at) {
        snprintf(size, sizeof(size), "%zu", body->size);
        frames[n++] = text_frame(size);
    }
    return transit_send(place->way, self->router, &identity, frames, n,
                        (body ? body->size - at : 0) + (between ? strlen(between) : 0));
}

int replog_send(replog_t *self, place_t *place, const char *word, int64_t previous,
                int64_t revision, const msgpack_sbuffer *body)
{
    return send_frames(self, place, word, previous, revision, body, NULL);
}

/* Back-pressure: a worker that does not read costs a bounded amount of memory, and a slow one is
 * sent everything at its own pace. */
bool replog_has_room(const place_t *place)
{
    return !transit_is_full(place->way) && transit_bytes(place->way) < WAY_BYTES
           && transit_key_bytes(place->way) < WAY_KEY_BYTES;
}

/* Send all changes from `after` to the head as one delta. */
static int send_delta(replog_t *self, place_t *place, const PGresult *rows, int64_t after)
{
    msgpack_sbuffer body;
    int r;

    msgpack_sbuffer_init(&body);
    r = pack_rows(self, rows, &body);
    if (!r)
        r = send_frames(self, place, "delta", after, self->head, &body,
                        PQgetisnull(rows, 0, 8) ? NULL : PQgetvalue(rows, 0, 8));
    msgpack_sbuffer_destroy(&body);
    if (!r)
        subscriber_told(&place->sub, self->head);
    return r;
}

/* Send a delta, or begin a snapshot if the changes do not fit into one. */
int replog_send_news(replog_t *self, place_t *place, const PGresult *rows, int64_t after)
{
    if (replog_is_delta(self, rows, after))
        return send_delta(self, place, rows, after);
    subscriber_begin_snapshot(&place->sub, self->head, bus_mono_ms());
    return 0;
}

static int end_snapshot(replog_t *self, place_t *place, const msgpack_sbuffer *none)
{
    int r = 0;

    if (!*place->sub.snapshot_kind) /* a snapshot without entries */
        r = replog_send(self, place, "snapshot", 0, place->sub.snapshot_head, none);
    if (!r)
        r = replog_send(self, place, "end", 0, place->sub.snapshot_head, NULL);
    if (!r)
        subscriber_end_snapshot(&place->sub);
    return r;
}

int replog_send_chunk(replog_t *self, place_t *place)
{
    const subscriber_t *sub = &place->sub;
    _cleanup_(pgresult_clear) PGresult *rows = NULL;
    msgpack_sbuffer body;
    int r = replog_read_chunk(self, sub->snapshot_kind, sub->snapshot_id, &rows);
    int last = r ? -1 : PQntuples(rows) - 1;

    if (r)
        return r;
    msgpack_sbuffer_init(&body);
    r = pack_rows(self, rows, &body);
    if (!r && last < 0) {
        r = end_snapshot(self, place, &body);
    } else if (!r) {
        r = replog_send(self, place, *sub->snapshot_kind ? "more" : "snapshot", 0,
                        sub->snapshot_head, &body);
        if (!r)
            subscriber_chunk_sent(&place->sub, PQgetvalue(rows, last, 0),
                                  PQgetvalue(rows, last, 1));
    }
    msgpack_sbuffer_destroy(&body);
    return r;
}
