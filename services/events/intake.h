/* The event service beside its verbs: start, stop, metrics. Settings: intake, pub and those of
 * feed.h. */
#pragma once

#include "common/resource/service.h"

extern const service_part_t intake_part;
