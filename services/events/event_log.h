/* The log of audit events: what it keeps, for how long, and what it tells a subscriber that missed
 * some. */
#pragma once

#include "common/base/config.h"
#include "common/resource/crud.h"

/* event.heads {prefix} -> {heads: {type: number}}: the last number of each event type. */
int on_event_heads(crud_t *crud, const request_t *request, reply_t *reply);

/* event.missed {type, first, last, after, missed} -> {kept, beyond, events, more}: the events of
 * the log with these numbers, those behind `after`, at most EVENT_PAGE at a time. kept: how many
 * there are, counted up to KEPT_MAX; beyond: there are more. missed: how many events the subscriber
 * misses, sent once. */
int on_event_missed(crud_t *crud, const request_t *request, reply_t *reply);

/* event_log.trim {} -> {deleted, producers}: delete the events that are older, or more, than the
 * settings keep. */
int on_event_log_trim(crud_t *crud, const request_t *request, reply_t *reply);

/* Read the settings: event-log-days, event-log-events, producer-days. */
int event_log_setup(crud_t *crud, const config_t *config);

/* Counters since the start of the process: events that subscribers reported as missed; events
 * deleted from the log. */
uint64_t event_log_missed(void);
uint64_t event_log_deleted(void);
