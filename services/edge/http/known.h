/* Hashes of clients and accounts (share.h) that were made lately. Each request asks for the same
 * few of them several times, and each is one or two sums of SipHash. What is answered is what
 * share.h says: whoever takes another's place here only makes that one's hash be made again. No
 * nginx in here. */
#pragma once

#include "services/edge/http/share.h"

enum { KNOWN_CLIENTS = 1024, KNOWN_ACCOUNTS = 256, KNOWN_ID_MAX = 39 };

typedef struct {
    uint64_t address; /* what makes a client: an address of IPv4, or the /64 of one of IPv6 */
    uint32_t account;
    uint32_t hash; /* 0: none is known here */
    bool is_v4;
} known_client_t;

typedef struct {
    uint32_t hash; /* 0: none is known here */
    unsigned char len;
    char id[KNOWN_ID_MAX];
} known_account_t;

/* All zero: none is known. Of one key, whose hashes they all are. */
typedef struct {
    known_client_t clients[KNOWN_CLIENTS];
    known_account_t accounts[KNOWN_ACCOUNTS];
} known_t;

/* share_client: never 0. */
uint32_t known_client(known_t *self, const unsigned char key[SHARE_KEY_BYTES],
                      const struct sockaddr *address, uint32_t account);

/* share_hash of an account's id, below no account: never 0. */
uint32_t known_account(known_t *self, const unsigned char key[SHARE_KEY_BYTES], const void *id,
                       size_t len);
