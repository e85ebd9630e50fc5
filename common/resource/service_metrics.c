/* /metrics and /readyz of a resource service. */
#include "common/resource/service_internal.h"
#include "common/bus/peer.h"
#include "common/store/notes.h"

#include <inttypes.h>
#include <stdio.h>

size_t service_metrics(void *context, char *out, size_t size)
{
    service_t *self = context;
    const char *name = self->row->name;
    const service_part_t *part = self->spec->part;
    size_t n = peer_metrics(name, out, size);

    n += part ? part->metrics(self->part, out + n, size - n) : 0;
    for (int i = 0; i < SERVICE_ASKS_MAX; i++)
        n += neighbour_metrics(self->neighbours[i], name, out + n, size - n);
    out += n;
    size -= n;
    return n
           + (size_t)snprintf(out, size,
                              "postern_%s_requests_total %" PRIu64 "\n"
                              "postern_%s_requests_refused_total %" PRIu64 "\n"
                              "postern_%s_requests_over_share_total %" PRIu64 "\n"
                              "postern_%s_requests_resent_total %" PRIu64 "\n"
                              "postern_%s_requests_dropped_total %" PRIu64 "\n"
                              "postern_%s_requests_queued %zu\n"
                              "postern_%s_replies_held %d\n"
                              "postern_%s_replies_unacknowledged_total %" PRIu64 "\n"
                              "postern_%s_edge_workers_live %d\n"
                              "postern_%s_edge_revision_lowest %" PRId64 "\n"
                              "postern_%s_streams_ended_total %" PRId64 "\n"
                              "postern_%s_other_copies %" PRId64 "\n"
                              "postern_%s_audit_events_refused %" PRId64 "\n"
                              "postern_%s_notifications_refused_total %" PRId64 "\n",
                              name, self->metrics.requests, name, self->metrics.refused, name,
                              self->metrics.over_share, name, self->metrics.resent, name,
                              self->metrics.dropped, name, backlog_waiting(self->backlog), name,
                              held_count(self->held), name, held_late(self->held), name,
                              self->edges.live, name, edges_lowest(&self->edges), name,
                              self->edges.streams_ended, name, self->edges.copies, name,
                              outbox_refused(), name, notes_refused());
}

bool service_is_ready(void *context, char *why, size_t size)
{
    service_t *self = context;

    if (self->spec->part && !self->spec->part->is_ready(self->part, why, size))
        return false;
    if (stillness_seconds(&self->stillness)) {
        snprintf(why, size, "PostgreSQL has not answered for %d s",
                 stillness_seconds(&self->stillness));
        return false;
    }
    if (pg_trouble()) {
        snprintf(why, size, "%s", pg_trouble());
        return false;
    }
    if (!backlog_is_full(self->backlog))
        return true;
    snprintf(why, size, "the request queue is full: is PostgreSQL up?");
    return false;
}
