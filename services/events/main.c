/* postern-events owns the event log, subscriptions, destinations and the fan-out.
 * Binds: RPC, intake for producers, PUB for subscribers. Publishes: every event, once stored or counted;
 * audit events of its own kinds through its outbox, which sends them to its own intake.
 * Must never block its producers. */
#include "common/service.h"
#include "services/events/destination.h"
#include "services/events/intake.h"
#include "services/events/subscription.h"

#include <sched.h>

EMBED(events_0001_sql, "services/events/migrations/0001_events.sql");
EMBED(common_schema_sql, "common/schema.sql");
EMBED(common_limits_sql, "common/limits.sql");
EMBED(common_requests_sql, "common/requests.sql");
EMBED(events_0002_sql, "services/events/migrations/0002_subscriptions.sql");

static const setting_t settings[] = {
    {"intake", SETTING_STR, NULL, 0, 0, "endpoint where producers send batches"},
    {"event-memory", SETTING_STR, "", 0, 0,
     "directory where edges on this machine leave events; none: they send them"},
    {"pub", SETTING_STR, NULL, 0, 0, "PUB endpoint for subscribers"},
    {NULL, SETTING_STR, NULL, 0, 0, NULL},
};

static const kind_rules_t rules[] = {
    {.kind = "event_destination", .check = event_destination_check},
    {.kind = "event_subscription", .check = event_subscription_check},
    {.kind = NULL},
};

int main(int argc, char **argv)
{
    const char *const migrations[] = {events_0001_sql,   common_schema_sql,   events_0002_sql,
                                      common_limits_sql, common_requests_sql, NULL};
    const service_spec_t spec = {
        .name = "events",
        .about = "postern-events: event log, subscriptions, destinations and fan-out",
        .migrations = migrations,
        .rules = rules,
        .settings = settings,
        .part = &intake_part,
    };

    /* Traffic goes before events: no thread of ours preempts an edge on the same machine. */
    sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0});
    return service_main(&spec, argc, argv);
}
