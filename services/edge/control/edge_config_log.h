/* What is particular to the config log: its messages make the tables that requests are served by,
 * bring names that are resolved before they are acknowledged, and are kept in the state file. */
#pragma once

#include "services/edge/control/edge_logs.h"

/* For edge_log. */
const edge_log_row_t *edge_config_log(void);

/* Begin the conversation, after the table has been loaded from the state file. wants_all: that file
 * was truncated, so the log is asked for a snapshot, of which a new one is written. */
void edge_config_log_start(ngx_uint_t wants_all);

/* The helper cannot append to the state file: ask the log for a snapshot. */
void edge_config_log_want_all(void);
/* Whether the helper has the following messages on disk: only revisions that it has are
 * acknowledged. */
void edge_config_log_set_kept(ngx_uint_t kept);

/* At each beat: as edge_follow_beat, and ask for everything where that is wanted. */
void edge_config_log_beat(void);
