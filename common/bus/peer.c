#include "common/bus/peer.h"
#include "common/bus/bus.h"
#include "common/bus/cert.h"
#include "common/base/cleanup.h"
#include "common/base/log.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

enum {
    PEERS_MAX = 4096,
    KEY_SIZE = 41, /* a public key in Z85, and NUL */
    ID_SIZE = 96,  /* role@name */
    COARSE_MS =
        2000, /* a file that changed less than this ago may change again without a new timestamp */
    SAID_MAX = 64, /* reasons for a refusal whose last log line is remembered */
    SAID_MS = 60000,
    LINES_MAX = 32, /* log lines about refusals in a minute, of all peers together */
    BIND_TRIES = 500,
    BIND_MS = 10
};

#define ENDPOINT "inproc://zeromq.zap.01" /* ZeroMQ RFC 27 */

/* ---- the keys ---- */

typedef struct known {
    char key[KEY_SIZE], id[ID_SIZE];
    roles_t role; /* ROLE_NOBODY: several files have this key, so it is nobody's */
} known_t;

typedef struct keyring {
    char dir[4096];
    known_t *peers;
    int count;
    uint64_t state; /* hash of the directory's listing and timestamps, taken before the files were
                       read */
    uint64_t connections; /* number of connections that were let in: each gets the next number */
    bool settled;         /* no file had changed within COARSE_MS: the hash can be trusted */
} keyring_t;

static known_t *find_key(const keyring_t *self, const char *key)
{
    for (int i = 0; i < self->count; i++)
        if (!strcmp(self->peers[i].key, key))
            return &self->peers[i];
    return NULL;
}

/* Read one file of the directory. Files whose names are not ROLE.cert or ROLE@NAME.cert are
 * ignored. */
static void take_file(keyring_t *self, const char *file)
{
    const char *dot = strrchr(file, '.');
    size_t len = dot ? (size_t)(dot - file) : 0;
    char path[sizeof(self->dir) + NAME_MAX + 2];
    known_t one = {0}, *same;
    zcert_t *cert = NULL;
    int r;

    if (!dot || strcmp(dot, ".cert"))
        return;
    if (len >= sizeof(one.id) || !peer_name_check(file, len, &one.role)) {
        log_warn("%s/%s names no role of the bus: it is passed over", self->dir, file);
        return;
    }
    snprintf(path, sizeof(path), "%s/%s", self->dir, file);
    r = cert_load(&cert, path);
    if (r) {
        if (r == -EBADMSG)
            log_warn("%s holds no CURVE key: it is passed over", path);
        else
            log_warn("%s cannot be read: %s: it is passed over", path, strerror(-r));
        return;
    }
    snprintf(one.id, sizeof(one.id), "%.*s", (int)len, file);
    snprintf(one.key, sizeof(one.key), "%s", zcert_public_txt(cert));
    zcert_destroy(&cert);
    same = find_key(self, one.key);
    if (same) {
        log_warn("%s and %s have the same key in %s: it is nobody's", same->id, one.id, self->dir);
        same->role = ROLE_NOBODY;
    } else {
        self->peers[self->count++] = one;
    }
}

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t len)
{
    const unsigned char *at = data;

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ at[i]) * 0x100000001b3; /* FNV-1a */
    return hash;
}

/* Hash of a file's name, inode, size and timestamps: changes when the file is written or replaced.
 */
static uint64_t hash_file(const char *name, const struct stat *st, int64_t *newest_ms)
{
    uint64_t hash = hash_bytes(0xcbf29ce484222325, name, strlen(name));
    int64_t ms = (int64_t)st->st_ctim.tv_sec * 1000;

    hash = hash_bytes(hash, &st->st_ino, sizeof(st->st_ino));
    hash = hash_bytes(hash, &st->st_size, sizeof(st->st_size));
    hash = hash_bytes(hash, &st->st_mtim, sizeof(st->st_mtim));
    hash = hash_bytes(hash, &st->st_ctim, sizeof(st->st_ctim));
    if (ms > *newest_ms)
        *newest_ms = ms;
    return hash;
}

/* Hash over all files of the directory. The directory's own timestamp is not enough: it does not
 * change when a file is written in place. The sum does not depend on the order of the listing. */
static uint64_t hash_files(DIR *dir, int64_t *newest_ms)
{
    uint64_t state = 0;
    struct dirent *entry;
    struct stat st;

    while ((entry = readdir(dir)))
        if (!fstatat(dirfd(dir), entry->d_name, &st, 0))
            state += hash_file(entry->d_name, &st, newest_ms);
    rewinddir(dir);
    return state;
}

/* Read the keys again if a file changed, so that a key that was added, replaced or removed counts
 * from the next connection on. 0 | fault: then no key is known. */
static int keep_current(keyring_t *self)
{
    DIR *dir = opendir(self->dir);
    struct dirent *entry;
    int64_t newest_ms = 0;
    uint64_t state;

    if (!dir) {
        self->count = 0;
        self->settled = false;
        return fault(-errno, self->dir);
    }
    state = hash_files(dir, &newest_ms);
    if (!self->settled || state != self->state) {
        self->count = 0;
        while ((entry = readdir(dir)) && self->count < PEERS_MAX)
            take_file(self, entry->d_name);
        self->state = state;
        self->settled = bus_now_ms() > newest_ms + COARSE_MS;
    }
    closedir(dir);
    return 0;
}

/* ---- refusals ---- */

static struct {
    _Atomic uint64_t counts[SOCKETS];
    pthread_mutex_t lock; /* guards the fields below */
    struct {
        uint64_t hash;
        int64_t ms;
    } said[SAID_MAX];
    int next, lines;
    int64_t minute_ms;
} refusals = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3; /* FNV-1a */
    return (hash ^ 0xff) * 0x100000001b3;
}

/* May a line about this reason be logged: none within a minute, and fewer than LINES_MAX about
 * others? */
static bool may_say(uint64_t hash, int64_t now)
{
    if (now - refusals.minute_ms >= SAID_MS) {
        refusals.minute_ms = now;
        refusals.lines = 0;
    }
    for (int i = 0; i < SAID_MAX; i++)
        if (refusals.said[i].hash == hash && refusals.said[i].ms
            && now - refusals.said[i].ms < SAID_MS)
            return false;
    if (refusals.lines >= LINES_MAX)
        return false;
    refusals.lines++;
    refusals.said[refusals.next].hash = hash;
    refusals.said[refusals.next].ms = now;
    refusals.next = (refusals.next + 1) % SAID_MAX;
    return true;
}

void peer_refused(socket_id_t socket, const char *who, const char *what)
{
    char domain[64], quoted_who[300], quoted_what[600];
    bool say;

    atomic_fetch_add(&refusals.counts[socket], 1);
    pthread_mutex_lock(&refusals.lock);
    say = may_say(hash_text(hash_text(0xcbf29ce484222325 + (uint64_t)socket, who), what),
                  bus_mono_ms());
    pthread_mutex_unlock(&refusals.lock);
    if (say)
        log_warn("refused: socket=%s peer=\"%s\" %s", socket_domain(socket, domain, sizeof(domain)),
                 log_quote(who, strnlen(who, 70), quoted_who, sizeof(quoted_who)),
                 log_quote(what, strnlen(what, 140), quoted_what, sizeof(quoted_what)));
}

size_t peer_metrics(const char *service, char *out, size_t size)
{
    size_t n = 0;

    for (int id = 0; id < SOCKETS; id++) {
        socket_row_t row = socket_row((socket_id_t)id);

        if (!strcmp(role_name(row.owner), service) && n < size)
            n += (size_t)snprintf(out + n, size - n,
                                  "postern_%s_bus_refused_total{socket=\"%s\"} %" PRIu64 "\n",
                                  service, row.name, atomic_load(&refusals.counts[id]));
    }
    return n;
}

/* ---- ZAP ---- */

static zactor_t *handler; /* one in each process, because RFC 27 fixes the endpoint */

/* Why a peer that shows this key may not connect to this socket. NULL: it may, and *ret_peer is
 * set. */
static const char *peer_judge(keyring_t *keys, const char *mechanism, const char *key,
                              socket_id_t socket, const known_t **ret_peer)
{
    const known_t *peer;

    if (strcmp(mechanism, "CURVE"))
        return "it shows no key";
    peer = find_key(keys, key);
    if (!peer)
        return "its key is in no file of peers";
    if (!peer->role)
        return "its key is in several files of peers";
    *ret_peer = peer;
    return socket_row(socket).who & peer->role ? NULL : "its role has no business here";
}

#define CONNECTION "X-Connection"

/* The metadata that libzmq attaches to every message of an accepted connection: ZMTP properties
 * (ZeroMQ RFC 23). Ours is the connection's number. */
static zframe_t *make_properties(keyring_t *keys)
{
    unsigned char out[64] = {sizeof(CONNECTION) - 1};
    size_t head = sizeof(CONNECTION) + 4;
    int len = snprintf((char *)out + head, sizeof(out) - head, "%" PRIu64, ++keys->connections);

    memcpy(out + 1, CONNECTION, sizeof(CONNECTION) - 1);
    out[head - 1] =
        (unsigned char)len; /* the low byte of a length of four bytes; the others are 0 */
    return zframe_new(out, head + (size_t)len);
}

/* Send the ZAP reply. wrong: why the peer is refused; NULL: it is accepted. */
static void send_answer(keyring_t *keys, zsock_t *sock, const char *version, const char *request,
                        const char *status, const char *wrong, const known_t *peer)
{
    zframe_t *properties = wrong ? zframe_new_empty() : make_properties(keys);
    zmsg_t *msg = zmsg_new();

    zmsg_addstr(msg, version ? version : "1.0");
    zmsg_addstr(msg, request ? request : "");
    zmsg_addstr(msg, status);
    zmsg_addstr(msg, wrong ? wrong : "");
    zmsg_addstr(msg, wrong ? "" : peer->id);
    zmsg_append(msg, &properties);
    zmsg_send(&msg, sock);
    zmsg_destroy(&msg);
}

/* Frames: version, request id, domain, address, identity, mechanism, credentials. */
static void zap_answer(keyring_t *keys, zsock_t *sock)
{
    zmsg_t *msg = zmsg_recv(sock);
    _cleanup_(free_mem) char *version = msg ? zmsg_popstr(msg) : NULL;
    _cleanup_(free_mem) char *request = msg ? zmsg_popstr(msg) : NULL;
    _cleanup_(free_mem) char *domain = msg ? zmsg_popstr(msg) : NULL;
    zframe_t *address = msg ? zmsg_pop(msg) : NULL;
    zframe_t *identity = msg ? zmsg_pop(msg) : NULL;
    _cleanup_(free_mem) char *mechanism = msg ? zmsg_popstr(msg) : NULL;
    zframe_t *credentials = msg ? zmsg_pop(msg) : NULL;
    const char *wrong = "the handshake cannot be read", *status = "400";
    const known_t *peer = NULL;
    socket_id_t socket = domain ? socket_find(domain) : SOCKETS;
    char key[KEY_SIZE] = "";

    if (credentials && zframe_size(credentials) == 32)
        zmq_z85_encode(key, zframe_data(credentials), 32);
    if (keep_current(keys)) { /* the keys cannot be read, which is no fault of the peer's: 300 makes
                                 it try again */
        log_error("no peer can be let in: %s", fault_text());
        status = "300";
    } else if (socket < SOCKETS && mechanism) {
        wrong = peer_judge(keys, mechanism, key, socket, &peer);
        if (wrong)
            peer_refused(socket, peer ? peer->id : *key ? key : "?", wrong);
        else
            status = "200";
    }
    send_answer(keys, sock, version, request, status, wrong, peer);
    zframe_destroy(&address);
    zframe_destroy(&identity);
    zframe_destroy(&credentials);
    zmsg_destroy(&msg);
}

/* Bind the handler's endpoint, trying for a while: libzmq frees the name of an inproc endpoint some
 * time after its last socket was destroyed. */
static bool bind_handler(zsock_t *sock)
{
    for (int i = 0; i < BIND_TRIES; i++) {
        if (zsock_bind(sock, ENDPOINT) >= 0)
            return true;
        zclock_sleep(BIND_MS);
    }
    return false;
}

static void handler_actor(zsock_t *pipe, void *context)
{
    keyring_t *keys = context;
    zsock_t *sock = zsock_new(ZMQ_REP);
    zpoller_t *poller;
    bool stop = !sock || !bind_handler(sock);

    zsock_signal(pipe, stop ? 1 : 0);
    poller = zpoller_new(pipe, sock, NULL);
    while (!stop) {
        void *ready = zpoller_wait(poller, -1);

        if (ready == sock) {
            zap_answer(keys, sock);
        } else { /* the actor is to end, or a signal that the main thread handles */
            _cleanup_(free_mem) char *command = ready ? zstr_recv(pipe) : NULL;

            stop = ready ? !command || !strcmp(command, "$TERM") : zpoller_terminated(poller);
        }
    }
    zpoller_destroy(&poller);
    zsock_destroy(&sock);
    free(keys->peers);
    free(keys);
}

void peer_stop(void)
{
    zactor_destroy(&handler);
}

int peer_start(const char *dir)
{
    keyring_t *keys;

    if (handler)
        return 0;
    keys = calloc(1, sizeof(*keys));
    if (!keys || !(keys->peers = calloc(PEERS_MAX, sizeof(*keys->peers)))) {
        free(keys);
        return fault(-ENOMEM, "the list of peers");
    }
    snprintf(keys->dir, sizeof(keys->dir), "%.4000s/peers", dir);
    if (keep_current(keys)) {
        free(keys->peers);
        free(keys);
        return -ENOENT;
    }
    handler = zactor_new(handler_actor, keys);
    if (!handler)
        return fault(-EADDRINUSE, "the handler of peers' keys");
    atexit(peer_stop);
    return 0;
}

/* Valid only for sockets that use the ZAP handler: without it the property is whatever the peer
 * claims. */
peer_t peer_of(zframe_t *frame)
{
    const char *id = frame ? zframe_meta(frame, "User-Id") : NULL;
    peer_t peer = {ROLE_NOBODY, "?", ""};
    const char *at;

    if (!id || !peer_name_check(id, strlen(id), &peer.role))
        return peer;
    at = strchr(id, '@');
    peer.id = id;
    peer.name = at ? at + 1 : id;
    return peer;
}

const char *peer_connection(zframe_t *frame)
{
    return zframe_meta(frame, CONNECTION);
}
