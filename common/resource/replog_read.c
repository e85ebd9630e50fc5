/* The config log in PostgreSQL: its head, what is new, and snapshots in pieces. */
#include "common/base/cleanup.h"
#include "common/base/err.h"
#include "common/resource/replog_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    CHUNK_ROWS = 64,   /* entries in one message: half a millisecond of an edge worker's time */
    DELTA_ROWS = 1024, /* entries in a delta; a worker that is further behind gets a snapshot */
    /* the same where every entry only says that something has ended, which costs a worker little,
     * while a snapshot has it ask for all that it knows; tidy.h keeps the newest 2,048 */
    DELTA_ENDS = 16384,
    /* sealed entries in one message of a snapshot; one larger entry goes alone */
    CHUNK_BYTES = 256 << 10,
    /* entries in a delta: half the size that a message may have (PACK_BYTES_MAX) */
    DELTA_BYTES = 8 << 20
};

static _Atomic int64_t highest; /* highest head that this process has seen */

int64_t replog_highest(void)
{
    return highest;
}

/* Take log id, revision and forgotten from three columns of the first row, beginning at column. */
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

static int delta_rows(const replog_t *self)
{
    return self->args->only_ends ? DELTA_ENDS : DELTA_ROWS;
}

int replog_read_news(replog_t *self, int64_t after, PGresult **ret_rows)
{
    char from[24], rows[16], bytes[16];
    int r;

    snprintf(from, sizeof(from), "%" PRId64, after);
    snprintf(rows, sizeof(rows), "%d", delta_rows(self) + 1);
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

bool replog_is_delta(const replog_t *self, const PGresult *rows, int64_t after)
{
    int n = PQntuples(rows);

    return self->known && after >= self->forgotten && n <= delta_rows(self)
           && strtoll(PQgetvalue(rows, n - 1, 3), NULL, 10) <= DELTA_BYTES;
}

/* Pages by (kind, id). Rows that change during a snapshot are sent again in the delta that follows
 * it, which begins at the head of the snapshot's start. */
int replog_read_chunk(replog_t *self, const char *kind, const char *id, PGresult **ret_rows)
{
    char limit[16], bytes[16];

    snprintf(limit, sizeof(limit), "%d", CHUNK_ROWS);
    snprintf(bytes, sizeof(bytes), "%d", CHUNK_BYTES);
    return pg_exec(self->pg, ret_rows,
                   "SELECT kind, id, doc FROM ("
                   "SELECT kind, id, doc, sum(octet_length(doc)) OVER ("
                   "ORDER BY kind, id ROWS UNBOUNDED PRECEDING) AS bytes FROM ("
                   "SELECT kind, id, doc FROM config_entry WHERE doc IS NOT NULL "
                   "AND (kind, id) > ($1, $2) ORDER BY kind, id LIMIT $3::int) next) chunk "
                   "WHERE bytes <= $4::bigint OR bytes = octet_length(doc) ORDER BY kind, id",
                   4, kind, id, limit, bytes);
}
