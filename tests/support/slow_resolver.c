/* Fault injection for stories, preloaded into the edge by `make e2e`. Replaces
 *   - the resolver: names under .slow.test take long and have no address (a name server that does
 *     not answer), those under .lag.test take just less than the time limit, those under
 *     .brief.test as long as a distant name server, those under .late.test get an address after a
 *     while;
 *   - inet_pton: one address kills the process, like a bug in applying an entry;
 *   - open: while a file "frozen" is in the folder, opening an existing file with O_CREAT blocks, as
 *     on a frozen file system with Linux before 6.12. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef int (*getaddrinfo_fn)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

static int ends_with(const char *name, const char *tail)
{
    size_t len = name ? strlen(name) : 0, tail_len = strlen(tail);

    return len > tail_len && !strcmp(name + len - tail_len, tail);
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **list)
{
    getaddrinfo_fn next = (getaddrinfo_fn)dlsym(RTLD_NEXT, "getaddrinfo");

    if (ends_with(name, ".slow.test")) {
        sleep(8);
        return EAI_AGAIN;
    }
    if (ends_with(name, ".lag.test")) {
        usleep(600000);
        return EAI_AGAIN;
    }
    if (ends_with(name, ".brief.test")) {
        usleep(58000);
        return EAI_AGAIN;
    }
    if (ends_with(name, ".late.test")) {
        usleep(120000);
        return next("127.0.0.1", service, hints, list);
    }
    return next(name, service, hints, list);
}

typedef int (*inet_pton_fn)(int, const char *, void *);

int inet_pton(int family, const char *text, void *out)
{
    inet_pton_fn next = (inet_pton_fn)dlsym(RTLD_NEXT, "inet_pton");

    if (!strcmp(text, "198.18.66.66"))
        kill(getpid(), SIGKILL); /* intended: must not cause a sanitizer's report */
    return next(family, text, out);
}

typedef int (*open_fn)(const char *, int, ...);

static void wait_for_thaw(const char *file)
{
    const char *name = strrchr(file, '/');
    char frozen[PATH_MAX];

    if (!name || access(file, F_OK))
        return;
    snprintf(frozen, sizeof(frozen), "%.*s/frozen", (int)(name - file), file);
    while (!access(frozen, F_OK))
        usleep(10000);
}

static int open_by(const char *call, const char *file, int flags, va_list args)
{
    open_fn next = (open_fn)dlsym(RTLD_NEXT, call);

    if (!(flags & O_CREAT))
        return next(file, flags);
    wait_for_thaw(file);
    return next(file, flags, va_arg(args, mode_t));
}

int open(const char *file, int flags, ...)
{
    va_list args;
    int r;

    va_start(args, flags);
    r = open_by("open", file, flags, args);
    va_end(args);
    return r;
}

int open64(const char *file, int flags, ...)
{
    va_list args;
    int r;

    va_start(args, flags);
    r = open_by("open64", file, flags, args);
    va_end(args);
    return r;
}
