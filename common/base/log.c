#include "common/base/log.h"
#include "common/base/invariant.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static const char *log_tag = "postern";

void log_init(const char *tag)
{
    log_tag = tag;
}

void log_line(const char *level, const char *format, ...)
{
    static _Thread_local time_t second = -1; /* the second whose text is cached */
    static _Thread_local char text[sizeof("0000-00-00T00:00:00")];
    char line[2048];
    struct timespec now;
    struct tm utc;
    va_list args;
    size_t n;

    clock_gettime(CLOCK_REALTIME, &now);
    if (now.tv_sec != second && gmtime_r(&now.tv_sec, &utc)
        && strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc))
        second = now.tv_sec;
    n = (size_t)snprintf(line, sizeof(line), "%s.%03ldZ %s %s ", text, now.tv_nsec / 1000000, level,
                         log_tag);
    va_start(args, format);
    int more = vsnprintf(line + n, sizeof(line) - n - 1, format, args);
    va_end(args);
    if (more > 0)
        n += (size_t)more;
    if (n > sizeof(line) - 2)
        n = sizeof(line) - 2;
    INVARIANT(n < sizeof(line));
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, n) < 0)
        return; /* standard error cannot be written to, so nothing can be said */
}

char *log_quote(const char *text, size_t len, char *out, size_t size)
{
    size_t at = 0;

    INVARIANT(size > 0);
    for (size_t i = 0; i < len && at + 5 < size; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\')
            out[at++] = (char)c;
        else
            at += (size_t)snprintf(out + at, size - at, "\\x%02x", c);
    }
    INVARIANT(at < size);
    out[at] = '\0';
    return out;
}
