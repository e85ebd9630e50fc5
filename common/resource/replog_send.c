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
    CHUNK_ROWS = 64,   /* entries in one message: half a millisecond of an edge worker's time */
    DELTA_ROWS = 1024, /* that an edge may be behind; beyond that it gets everything */
    CHUNK_BYTES =
        256 << 10, /* of sealed entries in one message of a snapshot, or the one that is larger */
    DELTA_BYTES =
        8
        << 20, /* and in a delta: half of what a message may have (PACK_BYTES_MAX), whatever the API allows */
    WAY_BYTES = 1 << 20,      /* on their way to one connection, and one message more */
    WAY_KEY_BYTES = 16 << 20, /* and to all of one key */
    PART_BYTES =
        64
        << 10, /* of a body in one message: over a slow link none takes long, see HEARTBEAT_SILENCE_MS */
    PARTS_MAX = 64, /* then they are larger: all of them find a place in the connection's queue */
    SNAPSHOTS_AT_ONCE =
        8, /* begun for one worker before one ends: it may ask again while it waits for the first part */
    SNAPSHOT_AGAIN_MS = 500 /* and from then on */
};

/* ---- entries to wire ---- */

static void put_str(msgpack_packer *packer, const char *text)
{
    msgpack_pack_str(packer, strlen(text));
    msgpack_pack_str_body(packer, text, strlen(text));
}

/* Body: array of [kind, id, document or nil]; the document's bytes go through as they are. A row without a kind is none. */
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

/* All of the body but its end, for who takes it so; head: log id, previous revision, revision. *ret_at: how much that was. */
static int send_parts(replog_t *self, subscriber_t *sub, const transit_frame_t head[3],
                      const msgpack_sbuffer *body, size_t *ret_at)
{
    transit_frame_t identity = {sub->identity, sub->identity_len};
    size_t most = body->size / PARTS_MAX + 1, at = 0;
    int r = 0;

    most = most > PART_BYTES ? most : PART_BYTES;
    for (; !r && sub->greeting.parts && body->size - at > most; at += most) {
        char offset[24];
        transit_frame_t frames[] = {text_frame("part"),      head[0],    head[1], head[2],
                                    {body->data + at, most}, {offset, 0}};

        frames[5].len = (size_t)snprintf(offset, sizeof(offset), "%zu", at);
        r = transit_send(sub->way, self->router, &identity, frames, LEN(frames), most);
    }
    *ret_at = at;
    return r;
}

/* between: see replog_read_news; only a delta has it. What could not be sent whole begins anew the next time. */
static int send_frames(replog_t *self, subscriber_t *sub, const char *word, int64_t previous,
                       int64_t revision, const msgpack_sbuffer *body, const char *between)
{
    char before[24], now[24], size[24];
    transit_frame_t identity = {sub->identity, sub->identity_len};
    transit_frame_t frames[7] = {text_frame(word), text_frame(self->log_id)};
    size_t n = 4, at = 0;
    int r = 0;

    snprintf(before, sizeof(before), "%" PRId64, previous);
    snprintf(now, sizeof(now), "%" PRId64, revision);
    frames[2] = text_frame(before);
    frames[3] = text_frame(now);
    if (body)
        r = send_parts(self, sub, frames + 1, body, &at);
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
    return transit_send(sub->way, self->router, &identity, frames, n,
                        (body ? body->size - at : 0) + (between ? strlen(between) : 0));
}

int replog_send(replog_t *self, subscriber_t *sub, const char *word, int64_t previous,
                int64_t revision, const msgpack_sbuffer *body)
{
    return send_frames(self, sub, word, previous, revision, body, NULL);
}

/* A worker that does not read costs what is on its way to it, and no more; one that reads slowly gets all, in its time. */
bool replog_has_room(const subscriber_t *sub)
{
    return !transit_is_full(sub->way) && transit_bytes(sub->way) < WAY_BYTES
           && transit_key_bytes(sub->way) < WAY_KEY_BYTES;
}

static _Atomic int64_t highest; /* head, ever, of this process */

int64_t replog_highest(void)
{
    return highest;
}

/* Log id, revision and what is forgotten stand in this column and the next two of the first row. */
static int take_head(replog_t *self, const PGresult *res, int column)
{
    if (PQntuples(res) == 0)
        return fault(-EIO, "the config log has no head");
    snprintf(self->log_id, sizeof(self->log_id), "%s", PQgetvalue(res, 0, column));
    self->head = strtoll(PQgetvalue(res, 0, column + 1), NULL, 10);
    self->forgotten = strtoll(PQgetvalue(res, 0, column + 2), NULL, 10);
    if (self->head > highest)
        highest = self->head;
    return 0;
}

int replog_read_head(replog_t *self)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = pg_exec(self->pg, &res, "SELECT log_id, revision, forgotten FROM config_head", 0);

    return r ? r : take_head(self, res, 0);
}

/* Everything after `after` up to the head, as one delta. */
static int send_delta(replog_t *self, subscriber_t *sub, const PGresult *rows, int64_t after)
{
    msgpack_sbuffer body;
    int r;

    msgpack_sbuffer_init(&body);
    r = pack_rows(self, rows, &body);
    if (!r)
        r = send_frames(self, sub, "delta", after, self->head, &body,
                        PQgetisnull(rows, 0, 8) ? NULL : PQgetvalue(rows, 0, 8));
    msgpack_sbuffer_destroy(&body);
    if (!r)
        sub->sent = self->head;
    return r;
}

/* The head and what is new after `after` up to it, in one round trip, with columns bytes, log_id, revision, forgotten, known and
 * between behind kind, id and doc. At least one row, without an entry when nothing is new. between, in the first: the revisions of this
 * log from `after` to the head, without either, with commas between, NULL: none. More than a delta takes is not read: see fits(). */
int replog_read_news(replog_t *self, int64_t after, PGresult **ret_rows)
{
    char from[24], rows[16], bytes[16];
    int r;

    snprintf(from, sizeof(from), "%" PRId64, after);
    snprintf(rows, sizeof(rows), "%d", DELTA_ROWS + 1);
    snprintf(bytes, sizeof(bytes), "%d", DELTA_BYTES);
    r = pg_exec(self->pg, ret_rows,
                "SELECT n.kind, n.id, CASE WHEN n.bytes <= $3::bigint THEN n.doc END, n.bytes, "
                "h.log_id, h.revision, h.forgotten, "
                "EXISTS (SELECT FROM config_revision WHERE revision = $1::bigint), "
                "CASE WHEN coalesce(n.place, 1) = 1 THEN ("
                "SELECT string_agg(revision::text, ',' ORDER BY revision) FROM config_revision "
                "WHERE revision > $1::bigint AND revision < h.revision) END "
                "FROM config_head h LEFT JOIN LATERAL ("
                "SELECT kind, id, doc, row_number() OVER entry AS place, "
                "sum(coalesce(octet_length(doc), 0)) OVER entry AS bytes FROM ("
                "SELECT kind, id, doc, revision FROM config_entry "
                "WHERE revision > $1::bigint AND revision <= h.revision "
                "ORDER BY revision LIMIT $2::int) new "
                "WINDOW entry AS (ORDER BY revision, kind, id ROWS UNBOUNDED PRECEDING)) n "
                "ON true ORDER BY n.place",
                3, from, rows, bytes);
    if (!r)
        r = take_head(self, *ret_rows, 4);
    if (!r)
        self->known = !strcmp(PQgetvalue(*ret_rows, 0, 7), "t");
    return r;
}

/* Are these rows of read_news, which it read last, all that is new after `after`, and may they go as one message? */
static bool fits(const replog_t *self, const PGresult *rows, int64_t after)
{
    int n = PQntuples(rows);

    return self->known && after >= self->forgotten && n <= DELTA_ROWS
           && strtoll(PQgetvalue(rows, n - 1, 3), NULL, 10) <= DELTA_BYTES;
}

static int64_t snapshot_from(const subscriber_t *sub)
{
    int64_t now = bus_mono_ms(), next = sub->snapshot_from_ms + SNAPSHOT_AGAIN_MS;

    if (sub->snapshots_begun < SNAPSHOTS_AT_ONCE || next < now)
        return now;
    return sub->snapshot_from_ms > now ? sub->snapshot_from_ms : next;
}

void replog_begin_snapshot(replog_t *self, subscriber_t *sub)
{
    sub->snapshot_from_ms = snapshot_from(sub);
    sub->snapshots_begun++;
    sub->in_snapshot = true;
    sub->sent = 0; /* no revision that it names before the end counts */
    sub->snapshot_head = self->head;
    sub->snapshot_kind[0] = sub->snapshot_id[0] = '\0';
}

/* What is new since it was last told: as a delta, or, where that would be too much for one message, everything in chunks. */
int replog_send_news(replog_t *self, subscriber_t *sub, const PGresult *rows, int64_t after)
{
    if (fits(self, rows, after))
        return send_delta(self, sub, rows, after);
    replog_begin_snapshot(self, sub);
    return 0;
}

static void remember_place(subscriber_t *sub, const PGresult *rows)
{
    int last = PQntuples(rows) - 1;

    snprintf(sub->snapshot_kind, sizeof(sub->snapshot_kind), "%s", PQgetvalue(rows, last, 0));
    snprintf(sub->snapshot_id, sizeof(sub->snapshot_id), "%s", PQgetvalue(rows, last, 1));
}

static int end_snapshot(replog_t *self, subscriber_t *sub, const msgpack_sbuffer *none)
{
    int r = 0;

    if (!*sub->snapshot_kind) /* of nothing */
        r = replog_send(self, sub, "snapshot", 0, sub->snapshot_head, none);
    if (!r)
        r = replog_send(self, sub, "end", 0, sub->snapshot_head, NULL);
    if (r)
        return r;
    sub->in_snapshot = false;
    sub->snapshots_begun = 0;
    sub->sent = sub->snapshot_head;
    return 0;
}

/* One chunk of a snapshot, keyed by (kind, id): rows that change meanwhile come again in the delta
 * from the head at its start. At least one row, however large it is. */
int replog_send_chunk(replog_t *self, subscriber_t *sub)
{
    _cleanup_(pgresult_clear) PGresult *rows = NULL;
    msgpack_sbuffer body;
    char limit[16], bytes[16];
    int r, n;

    snprintf(limit, sizeof(limit), "%d", CHUNK_ROWS);
    snprintf(bytes, sizeof(bytes), "%d", CHUNK_BYTES);
    r = pg_exec(self->pg, &rows,
                "SELECT kind, id, doc FROM ("
                "SELECT kind, id, doc, sum(octet_length(doc)) OVER ("
                "ORDER BY kind, id ROWS UNBOUNDED PRECEDING) AS bytes FROM ("
                "SELECT kind, id, doc FROM config_entry WHERE doc IS NOT NULL "
                "AND (kind, id) > ($1, $2) ORDER BY kind, id LIMIT $3::int) next) chunk "
                "WHERE bytes <= $4::bigint OR bytes = octet_length(doc) ORDER BY kind, id",
                4, sub->snapshot_kind, sub->snapshot_id, limit, bytes);
    if (r)
        return r;
    n = PQntuples(rows);
    msgpack_sbuffer_init(&body);
    r = pack_rows(self, rows, &body);
    if (!r && n > 0) {
        r = replog_send(self, sub, *sub->snapshot_kind ? "more" : "snapshot", 0, sub->snapshot_head,
                        &body);
        if (!r)
            remember_place(sub, rows);
    } else if (!r) {
        r = end_snapshot(self, sub, &body);
    }
    msgpack_sbuffer_destroy(&body);
    return r;
}
