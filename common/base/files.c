#include "common/base/files.h"
#include "common/base/log.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum { SHORT_TENTHS = 9, ENOUGH_TENTHS = 8 };

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

/* Open files of the process. -1: the limit is reached, so that they cannot even be counted. */
static long count_open(void)
{
    DIR *dir = opendir("/proc/self/fd");
    long n = -1; /* not the directory itself */

    if (!dir)
        return -1;
    for (struct dirent *entry; (entry = readdir(dir));)
        n += *entry->d_name != '.';
    closedir(dir);
    return n;
}

void files_look(files_watch_t *self)
{
    struct rlimit limit;
    bool were_short = self->are_short;

    if (getrlimit(RLIMIT_NOFILE, &limit))
        return;
    self->limit = (long)limit.rlim_cur;
    self->open = count_open();
    if (self->open < 0)
        self->open = self->limit;
    self->are_short = 10 * self->open >= (were_short ? ENOUGH_TENTHS : SHORT_TENTHS) * self->limit;
    if (self->are_short && !were_short)
        log_warn(
            "open files run short: %ld of %ld. When there are no more nobody can connect: raise "
            "the limit, or see who has so many connections",
            self->open, self->limit);
    else if (were_short && !self->are_short)
        log_info("open files do not run short any more: %ld of %ld", self->open, self->limit);
}

size_t files_metrics(const files_watch_t *self, const char *service, char *out, size_t size)
{
    return (size_t)snprintf(out, size,
                            "postern_%s_files_open %ld\n"
                            "postern_%s_files_limit %ld\n",
                            service, self->open, service, self->limit);
}
