#include "common/place/place.h"
#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/utf8.h"
#include "common/place/mmdb.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

enum { EARTH_KM = 20038 /* half its circumference: nothing is farther off */ };

/* A file in memory, for as long as somebody looks up by it. */
typedef struct base {
    mmdb_t mmdb;
    unsigned refs; /* under the mutex of place_bases_t */
    unsigned char bytes[];
} base_t;

/* What tells one state of a file from another. */
typedef struct version {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec changed; /* its content or what is said of it */
} version_t;

typedef struct source {
    char *path;
    base_t *current;        /* NULL: none has been read yet */
    version_t seen, loaded; /* at the last look; that current was read from */
    bool complained;        /* about seen */
} source_t;

enum { CITIES, NETWORKS, SOURCES };

struct place_bases {
    pthread_mutex_t mutex;   /* of current and refs, for moments */
    pthread_mutex_t looking; /* of the rest: one thread at a time, the others do not wait */
    bool looked;
    int64_t next_ms;
    source_t sources[SOURCES];
};

place_bases_t *place_bases_new(const char *cities, const char *networks)
{
    place_bases_t *self = memory_new(sizeof(*self), "place databases");

    pthread_mutex_init(&self->mutex, NULL);
    pthread_mutex_init(&self->looking, NULL);
    self->sources[CITIES].path = memory_copy(cities, "place databases");
    self->sources[NETWORKS].path = memory_copy(networks, "place databases");
    return self;
}

void place_bases_destroy(place_bases_t **self_p)
{
    place_bases_t *self = *self_p;

    if (!self)
        return;
    for (int i = 0; i < SOURCES; i++) {
        free(self->sources[i].current);
        free(self->sources[i].path);
    }
    pthread_mutex_destroy(&self->mutex);
    pthread_mutex_destroy(&self->looking);
    free(self);
    *self_p = NULL;
}

/* The database that is current now; leave_base gives it back. */
static base_t *take_base(place_bases_t *self, int source)
{
    base_t *base;

    pthread_mutex_lock(&self->mutex);
    base = self->sources[source].current;
    if (base)
        base->refs++;
    pthread_mutex_unlock(&self->mutex);
    return base;
}

static void leave_base(place_bases_t *self, base_t *base)
{
    bool last;

    pthread_mutex_lock(&self->mutex);
    last = --base->refs == 0;
    pthread_mutex_unlock(&self->mutex);
    if (last)
        free(base);
}

/* ---- files ---- */

static version_t version_of(const struct stat *st)
{
    return (version_t){st->st_dev, st->st_ino, st->st_size, st->st_ctim};
}

static bool is_same(const version_t *a, const version_t *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size
           && a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

static int read_whole(int fd, unsigned char *out, size_t size)
{
    for (size_t len = 0; len < size;) {
        ssize_t n = read(fd, out + len, size - len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n ? -errno : -ESTALE;
        len += (size_t)n;
    }
    return 0;
}

/* Read the file and see what it is. 0, and *ret_version is what was read | -errno: *ret_why is what
 * to log. */
static int load_base(const char *path, base_t **ret_base, version_t *ret_version,
                     const char **ret_why)
{
    _cleanup_(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    _cleanup_(free_mem) base_t *base = NULL;
    struct stat st;
    version_t after;
    int r;

    if (fd < 0 || fstat(fd, &st)) {
        r = -errno;
        *ret_why = strerror(-r);
        return r;
    }
    *ret_version = version_of(&st);
    *ret_why = "it is no file, or larger than 1 GiB";
    if (!S_ISREG(st.st_mode) || st.st_size > PLACE_FILE_MAX)
        return -EFBIG;
    *ret_why = "there is no memory for it";
    base = malloc(sizeof(*base) + (size_t)st.st_size);
    if (!base)
        return -ENOMEM;
    r = read_whole(fd, base->bytes, (size_t)st.st_size);
    if (!r && fstat(fd, &st))
        r = -errno;
    after = version_of(&st);
    *ret_why = "it changed while it was read";
    if (r || !is_same(&after, ret_version))
        return r ? r : -ESTALE;
    r = mmdb_open(&base->mmdb, base->bytes, (size_t)after.size, ret_why);
    if (r)
        return r;
    base->refs = 1;
    *ret_base = take(base);
    return 0;
}

static void put_current(place_bases_t *self, source_t *source, base_t *base)
{
    base_t *old;

    pthread_mutex_lock(&self->mutex);
    old = source->current;
    source->current = base;
    pthread_mutex_unlock(&self->mutex);
    if (old)
        leave_base(self, old);
}

static void complain(source_t *source, const char *why)
{
    if (!source->complained)
        log_warn("%s is not used: %s%s", source->path, why,
                 source->current ? "; the one before stays" : "");
    source->complained = true;
}

static void look_at(place_bases_t *self, source_t *source, bool first)
{
    version_t now, read = {0};
    base_t *base = NULL;
    const char *why = NULL;
    struct stat st;

    if (!*source->path)
        return;
    if (stat(source->path, &st)) {
        complain(source, strerror(errno));
        return;
    }
    now = version_of(&st);
    if (!is_same(&now, &source->seen)) {
        source->seen = now;
        source->complained = false;
        if (!first)
            return; /* it may be still being written: the next look knows */
    }
    if (source->current && is_same(&now, &source->loaded))
        return;
    if (load_base(source->path, &base, &read, &why)) {
        complain(source, why);
        return;
    }
    source->loaded = source->seen = read;
    put_current(self, source, base);
    log_info("%s: %lld bytes are in use", source->path, (long long)read.size);
}

void place_bases_look(place_bases_t *self, int64_t now_ms)
{
    if (pthread_mutex_trylock(&self->looking))
        return;
    if (!self->looked || now_ms >= self->next_ms) {
        for (int i = 0; i < SOURCES; i++)
            look_at(self, &self->sources[i], !self->looked);
        self->looked = true;
        self->next_ms = now_ms + PLACE_LOOK_MS;
    }
    pthread_mutex_unlock(&self->looking);
}

const char *place_bases_unread(place_bases_t *self)
{
    for (int i = 0; i < SOURCES; i++) {
        base_t *base = take_base(self, i);

        if (base)
            leave_base(self, base);
        else if (*self->sources[i].path)
            return self->sources[i].path;
    }
    return NULL;
}

/* ---- lookups ---- */

#define PATH(...) ((const char *const[]){__VA_ARGS__, NULL})

static bool find_real(const mmdb_t *mmdb, size_t at, const char *name, double most,
                      double *ret_real)
{
    mmdb_value_t value;

    if (!mmdb_get(mmdb, at, PATH("location", name), &value) || value.kind != MMDB_REAL
        || !isfinite(value.real) || fabs(value.real) > most)
        return false;
    *ret_real = value.real;
    return true;
}

static bool is_capital(char c)
{
    return c >= 'A' && c <= 'Z';
}

static void find_city(const mmdb_t *mmdb, size_t at, place_t *out)
{
    mmdb_value_t value;

    if (mmdb_get(mmdb, at, PATH("country", "iso_code"), &value) && value.kind == MMDB_TEXT
        && value.len == 2 && is_capital(value.text[0]) && is_capital(value.text[1]))
        memcpy(out->country_code, value.text, 2);
    out->has_point = find_real(mmdb, at, "latitude", 90, &out->latitude)
                     && find_real(mmdb, at, "longitude", 180, &out->longitude);
    if (mmdb_get(mmdb, at, PATH("location", "accuracy_radius"), &value) && value.kind == MMDB_NUMBER
        && value.natural <= EARTH_KM) {
        out->has_radius = true;
        out->radius_km = (uint32_t)value.natural;
    }
}

/* Copy the characters that there is room for, up to what is no text. */
static void copy_name(const mmdb_value_t *value, char *out, size_t size)
{
    const unsigned char *at = (const unsigned char *)value->text, *end = at + value->len;
    size_t n, len = 0;

    while ((n = utf8_character(at, end)) && len + n < size && *at >= ' ' && *at != 0x7f) {
        memcpy(out + len, at, n);
        len += n;
        at += n;
    }
    out[len] = '\0';
}

static void find_network(const mmdb_t *mmdb, size_t at, place_t *out)
{
    mmdb_value_t value;

    if (!mmdb_get(mmdb, at, PATH("autonomous_system_number"), &value) || value.kind != MMDB_NUMBER
        || value.natural > UINT32_MAX)
        return;
    out->as_number = (uint32_t)value.natural;
    if (mmdb_get(mmdb, at, PATH("autonomous_system_organization"), &value)
        && value.kind == MMDB_TEXT)
        copy_name(&value, out->organization, sizeof(out->organization));
}

/* The bytes of the address; returns how many bits they are; 0: it is no address of a place. */
static unsigned address_bytes(const struct sockaddr *address, const unsigned char **ret_bytes)
{
    const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;

    if (address->sa_family == AF_INET) {
        *ret_bytes =
            (const unsigned char *)&((const struct sockaddr_in *)(const void *)address)->sin_addr;
        return 32;
    }
    if (address->sa_family != AF_INET6)
        return 0;
    *ret_bytes = six->s6_addr;
    if (!IN6_IS_ADDR_V4MAPPED(six))
        return 128;
    *ret_bytes += 12;
    return 32;
}

void place_find(place_bases_t *self, const struct sockaddr *address, place_t *ret_place)
{
    static void (*const finds[])(const mmdb_t *, size_t, place_t *) = {find_city, find_network};
    const unsigned char *bytes = NULL;
    unsigned bits = address_bytes(address, &bytes);

    memset(ret_place, 0, sizeof(*ret_place));
    for (int i = 0; self && bits && i < SOURCES; i++) {
        base_t *base = take_base(self, i);
        size_t at;

        if (!base)
            continue;
        if (mmdb_find(&base->mmdb, bytes, bits, &at))
            finds[i](&base->mmdb, at, ret_place);
        leave_base(self, base);
    }
}
