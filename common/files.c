#include "common/files.h"
#include "common/log.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

void files_raise(unsigned long count)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= count)
        return;
    limit.rlim_cur =
        limit.rlim_max == RLIM_INFINITY || limit.rlim_max > count ? count : limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit))
        log_warn("the limit of open files stays as it is: %s", strerror(errno));
}
