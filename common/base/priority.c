#include "common/base/priority.h"
#include "common/base/log.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

void priority_behind_traffic(void)
{
    struct sched_param none = {0};

    if (sched_setscheduler(0, SCHED_BATCH, &none))
        log_warn("runs at the priority of traffic: %s", strerror(errno));
}
