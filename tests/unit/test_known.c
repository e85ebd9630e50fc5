#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "services/edge/http/known.h"

static const unsigned char key[SHARE_KEY_BYTES] = "a key of a test";

static struct sockaddr_storage an_address(const char *text)
{
    struct sockaddr_storage out = {0};

    if (inet_pton(AF_INET, text, &((struct sockaddr_in *)&out)->sin_addr) == 1)
        out.ss_family = AF_INET;
    else if (inet_pton(AF_INET6, text, &((struct sockaddr_in6 *)&out)->sin6_addr) == 1)
        out.ss_family = AF_INET6;
    else
        out.ss_family = AF_UNIX;
    return out;
}

static void expect_same(known_t *known, const struct sockaddr_storage *address, uint32_t account)
{
    const struct sockaddr *client = (const struct sockaddr *)address;

    cr_assert_eq(known_client(known, key, client, account), share_client(key, client, account));
}

Test(known, clients_have_the_hashes_that_shares_give_them)
{
    static const char *const texts[] = {
        "0.0.0.0",        "192.0.2.1",        "192.0.2.2",       "::",
        "::ffff:1.2.3.4", "1.2.3.4",          "2001:db8::1",     "2001:db8::2",
        "2001:db8:0:1::", "64:ff9b::1.2.3.4", "c000:201::1",     "201:0:0:0::1",
        "fe80::1",        "/a/socket",        "2002:102:304::1",
    };
    known_t *known = calloc(1, sizeof(*known));

    for (int again = 0; again < 2; again++)
        for (uint32_t account = 0; account < 3; account++)
            for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                struct sockaddr_storage address = an_address(texts[i]);

                expect_same(known, &address, account);
                expect_same(known, &address, account);
            }
    free(known);
}

/* The bytes of an address of IPv4 are also the first ones of a network of IPv6. */
Test(known, an_address_is_not_taken_for_one_of_the_other_family)
{
    known_t *known = calloc(1, sizeof(*known));
    struct sockaddr_storage v4 = an_address("192.0.2.1"), v6 = an_address("c000:201::");

    expect_same(known, &v4, 0);
    expect_same(known, &v6, 0);
    expect_same(known, &v4, 0);
    cr_assert_neq(known_client(known, key, (struct sockaddr *)&v4, 0),
                  known_client(known, key, (struct sockaddr *)&v6, 0));
    free(known);
}

Test(known, more_clients_than_there_is_room_for_take_nobody_elses_hash)
{
    known_t *known = calloc(1, sizeof(*known));
    struct sockaddr_storage address = an_address("10.0.0.0");

    for (int again = 0; again < 2; again++)
        for (uint32_t i = 0; i < 5 * KNOWN_CLIENTS; i++) {
            ((struct sockaddr_in *)&address)->sin_addr.s_addr = htonl(0x0a000000 + i);
            expect_same(known, &address, i % 7);
        }
    free(known);
}

static void expect_same_account(known_t *known, const char *id, size_t len)
{
    cr_assert_eq(known_account(known, key, id, len), share_hash(key, id, len, 0));
}

Test(known, accounts_have_the_hashes_that_shares_give_them)
{
    known_t *known = calloc(1, sizeof(*known));
    char id[2 * KNOWN_ID_MAX];

    memset(id, 'a', sizeof(id));
    for (int again = 0; again < 2; again++)
        for (size_t len = 0; len <= sizeof(id); len++)
            for (char last = 'a'; last < 'd'; last++) {
                if (len)
                    id[len - 1] = last;
                expect_same_account(known, id, len);
                expect_same_account(known, id, len);
                if (len)
                    id[len - 1] = 'a';
            }
    for (size_t len = 1; len < 4; len++) /* the beginning of another one */
        expect_same_account(known, "abc", len);
    free(known);
}
