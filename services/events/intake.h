/* What the event service does beside its verbs. Settings: intake, pub. */
#pragma once

#include "common/resource/service.h"

extern const service_part_t intake_part;
