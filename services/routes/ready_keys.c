#include "services/routes/ready_keys.h"
#include "common/base/err.h"
#include "common/base/log.h"

#include <czmq.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    KEY_BITS = 2048,
    NICE = 5,        /* a third of what a request gets: 19 would make no key on a crowded machine */
    AGAIN_MS = 10000 /* after a failure of OpenSSL */
};

static struct {
    _Atomic(EVP_PKEY *) keys[READY_KEYS_MAX]; /* NULL: a place without a key */
    int places;                               /* that are used; set before the thread starts */
    zactor_t *maker;
    int wake; /* eventfd: a place became free */
    atomic_bool stops;
    atomic_uint_fast64_t late;
} supply = {.wake = -1};

/* OpenSSL asks it between the steps of making a key; 0 ends that. */
static int goes_on(EVP_PKEY_CTX *context)
{
    (void)context;
    return !atomic_load(&supply.stops);
}

/* NULL: OpenSSL makes none, or is_stoppable and the supply stops. */
static EVP_PKEY *make_key(bool is_stoppable)
{
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, "RSA", NULL);
    EVP_PKEY *key = NULL;

    if (context && EVP_PKEY_keygen_init(context) == 1
        && EVP_PKEY_CTX_set_rsa_keygen_bits(context, KEY_BITS) == 1) {
        if (is_stoppable)
            EVP_PKEY_CTX_set_cb(context, goes_on);
        if (EVP_PKEY_generate(context, &key) != 1)
            key = NULL;
    }
    EVP_PKEY_CTX_free(context);
    return key;
}

/* A place without a key, which only the maker fills; -1: all have one. */
static int free_place(void)
{
    for (int i = 0; i < supply.places; i++)
        if (!atomic_load(&supply.keys[i]))
            return i;
    return -1;
}

/* Make a key for the place. False: there is none. */
static bool fill_place(int place)
{
    EVP_PKEY *key = make_key(true);

    if (key)
        atomic_store(&supply.keys[place], key);
    else if (!atomic_load(&supply.stops))
        log_warn("no RSA key could be made to be ready: trying again in %d s", AGAIN_MS / 1000);
    return key;
}

/* Until the supply stops, whose end of the pipe then says so. */
static void maker_actor(zsock_t *pipe, void *context)
{
    (void)context;
    /* Of this thread alone: Linux knows priorities of threads, and takes 0 for the caller. */
    if (setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE))
        log_warn("keys are made with the priority of requests: %s", strerror(errno));
    zsock_signal(pipe, 0);
    while (!atomic_load(&supply.stops)) {
        zmq_pollitem_t items[] = {{zsock_resolve(pipe), 0, ZMQ_POLLIN, 0},
                                  {NULL, supply.wake, ZMQ_POLLIN, 0}};
        int place = free_place();
        uint64_t count;

        if (place >= 0 && fill_place(place))
            continue;
        if (zmq_poll(items, 2, place >= 0 ? AGAIN_MS : -1) < 0 && errno != EINTR)
            break; /* the process ends */
        if (read(supply.wake, &count, sizeof(count)) < 0 && errno != EAGAIN)
            break;
    }
    OPENSSL_thread_stop(); /* explicitly: the process may not wait for this detached thread */
}

int ready_keys_start(int count)
{
    supply.places = count;
    atomic_store(&supply.stops, false);
    if (!count)
        return 0;
    supply.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (supply.wake < 0)
        return fault(-ENOMEM, "make the descriptor of the supply of keys");
    supply.maker = zactor_new(maker_actor, NULL);
    if (supply.maker)
        return 0;
    ready_keys_stop();
    return fault(-ENOMEM, "start the supply of keys");
}

EVP_PKEY *ready_keys_take(void)
{
    const uint64_t one = 1;

    for (int i = 0; i < supply.places; i++) {
        EVP_PKEY *key = atomic_exchange(&supply.keys[i], NULL);

        if (!key)
            continue;
        /* Cannot block; fails only where the counter is full, and then the thread wakes up too. */
        if (write(supply.wake, &one, sizeof(one)) < 0)
            log_warn("the supply of keys cannot be told: %s", strerror(errno));
        return key;
    }
    atomic_fetch_add(&supply.late, 1);
    return make_key(false);
}

void ready_keys_stop(void)
{
    atomic_store(&supply.stops, true);
    zactor_destroy(&supply.maker);
    for (int i = 0; i < supply.places; i++)
        EVP_PKEY_free(atomic_exchange(&supply.keys[i], NULL));
    supply.places = 0;
    if (supply.wake >= 0)
        close(supply.wake);
    supply.wake = -1;
}

int ready_keys_count(void)
{
    int count = 0;

    for (int i = 0; i < supply.places; i++)
        count += atomic_load(&supply.keys[i]) != NULL;
    return count;
}

uint64_t ready_keys_late(void)
{
    return atomic_load(&supply.late);
}
