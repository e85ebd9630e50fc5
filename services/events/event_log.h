/* The log of audit events: what it keeps, for how long, and what it says to a subscriber that missed some. */
#pragma once

#include "common/base/config.h"
#include "common/resource/crud.h"

/* event.heads {prefix} -> {heads: {type: number}}: the last number of each event type. */
int on_event_heads(crud_t *crud, const request_t *request, reply_t *reply);

/* event.missed {type, first, last, after, missed} -> {kept, beyond, events, more}: what the log has of these numbers, those behind
 * `after` at most EVENT_PAGE at a time; beyond: it has more than `kept`, up to which it counts. missed: how many of them the
 * subscriber misses, said once. */
int on_event_missed(crud_t *crud, const request_t *request, reply_t *reply);

/* event_log.trim {} -> {deleted, producers}: what is older, or more, than the settings say. */
int on_event_log_trim(crud_t *crud, const request_t *request, reply_t *reply);

/* Read the settings: event-log-days, event-log-events, producer-days. */
int event_log_setup(crud_t *crud, const config_t *config);

/* Since the start: events that subscribers said they missed, and those that were deleted from the log. */
uint64_t event_log_missed(void);
uint64_t event_log_deleted(void);
