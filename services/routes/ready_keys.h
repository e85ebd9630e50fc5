/* RSA keys of 2,048 bits that were made before somebody needs them: one takes a quarter of a second
 * of an idle processor, and many seconds of a crowded one, which is longer than an API call may
 * last. One thread with a low priority makes them and sleeps while all places are taken. Takers on
 * other threads share no lock with it, so that they never wait for a thread that gets no processor.
 * Where no key is ready the taker makes one itself. One supply in a process. */
#pragma once

#include <openssl/types.h>
#include <stdint.h>

enum { READY_KEYS_MAX = 256 };

/* Begin to keep so many keys ready, 0..READY_KEYS_MAX; 0: none, and each is made when it is taken.
 * Once, before the first take. 0 | -ENOMEM: no thread or descriptor; nothing was started. */
int ready_keys_start(int count);

/* A key that nobody else has or gets; the caller frees it with EVP_PKEY_free, which wipes it. From
 * any thread, also before ready_keys_start and after ready_keys_stop. NULL: OpenSSL makes none. */
EVP_PKEY *ready_keys_take(void);

/* End the thread, also in the middle of a key, wipe and free the keys. No take may be under way. */
void ready_keys_stop(void);

/* Keys that are ready now; those that were made when they were taken, since the process started. */
int ready_keys_count(void);
uint64_t ready_keys_late(void);
