/* For stories: a resolver in which names under .slow.test take a while and have no address, as with a name server that
 * does not answer. Preloaded into the edge by `make e2e`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

typedef int (*getaddrinfo_fn)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **list)
{
    size_t len = name ? strlen(name) : 0, tail = strlen(".slow.test");
    getaddrinfo_fn next = (getaddrinfo_fn)dlsym(RTLD_NEXT, "getaddrinfo");

    if (len > tail && !strcmp(name + len - tail, ".slow.test")) {
        sleep(8);
        return EAI_AGAIN;
    }
    return next(name, service, hints, list);
}
