/* postern-events owns the event log, subscriptions, destinations and the fan-out. Binds: RPC,
 * intake for producers, PUB for subscribers. Publishes: every event, once it is stored or counted;
 * audit events of its own kinds go through its outbox to its own intake. Must never block its
 * producers. */
#include "common/resource/service.h"
#include "services/events/event_log.h"
#include "services/events/intake.h"

static const setting_t settings[] = {
    {"intake", SETTING_STR, NULL, 0, 0, "endpoint where producers send batches"},
    {"event-memory", SETTING_STR, "", 0, 0,
     "directory where edges on this machine leave events; none: they send them"},
    {"pub", SETTING_STR, NULL, 0, 0, "PUB endpoint for subscribers"},
    {"subscriber-mark", SETTING_INT, "100000", 1, 10000000,
     "events that wait for one subscriber; it misses later ones"},
    {"subscriber-return", SETTING_INT, "5", 0, 3600,
     "seconds that a subscriber may be away: events are made for it, and after a restart they "
     "wait"},
    {"event-log-days", SETTING_INT, "365", 0, 36500,
     "days that audit events are kept; 0: for good"},
    {"event-log-events", SETTING_INT, "1000000", 0, 1000000000,
     "audit events that are kept, about; 0: any number"},
    {"producer-days", SETTING_INT, "30", 1, 36500,
     "days that what an edge worker sent before it was started again is counted by itself"},
    {"event-log-trim-seconds", SETTING_INT, "600", 1, 86400, "between deletions of older ones"},
    {NULL, SETTING_STR, NULL, 0, 0, NULL},
};

static const verb_t verbs[] = {
#define OWN_VERBS_events OWN_VERBS
#include "common/resource/own_verbs.h"
    {NULL, NULL},
};

extern const migration_t events_migrations[]; /* made by the build */

int main(int argc, char **argv)
{
    const service_spec_t spec = {
        .id = SERVICE_events,
        .migrations = events_migrations,
        .verbs = verbs,
        .periodic = "event_log.trim",
        .period = "event-log-trim-seconds",
        .setup = event_log_setup,
        .settings = settings,
        .part = &intake_part,
    };

    return service_main(&spec, argc, argv);
}
