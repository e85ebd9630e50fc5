/* The supply of RSA keys: filled in the background, refilled, never given out twice, and no reason
 * to fail where it is empty. */
#include "services/routes/ready_keys.h"
#include "services/routes/saml_keys.h"

#include <criterion/criterion.h>
#include <openssl/evp.h>
#include <unistd.h>

/* A key takes long on a crowded machine: only Criterion's own limit ends this. */
static void wait_until_ready(int count)
{
    while (ready_keys_count() < count)
        usleep(1000);
}

Test(ready_keys, are_made_before_they_are_needed_and_made_again)
{
    EVP_PKEY *taken[5];

    cr_assert_eq(ready_keys_start(2), 0);
    wait_until_ready(2);
    for (int i = 0; i < 5; i++) {
        if (i != 2) /* where nothing was asked of the supply meanwhile, it is full again */
            wait_until_ready(i % 2 ? 1 : 2);
        taken[i] = ready_keys_take();
        cr_assert_not_null(taken[i]);
        cr_assert_eq(EVP_PKEY_get_bits(taken[i]), 2048);
        for (int before = 0; before < i; before++)
            cr_assert_neq(EVP_PKEY_eq(taken[i], taken[before]), 1, "%d and %d", i, before);
    }
    for (int i = 0; i < 5; i++)
        EVP_PKEY_free(taken[i]);
    cr_assert_leq(ready_keys_late(), 1);
    ready_keys_stop();
    cr_assert_eq(ready_keys_count(), 0);
}

Test(ready_keys, are_made_when_they_are_taken_where_none_is_ready)
{
    EVP_PKEY *before = ready_keys_take(), *without;

    cr_assert_eq(ready_keys_start(0), 0);
    without = ready_keys_take();
    cr_assert(before && without);
    cr_assert_neq(EVP_PKEY_eq(before, without), 1);
    cr_assert_eq(ready_keys_late(), 2);
    ready_keys_stop();
    EVP_PKEY_free(before);
    EVP_PKEY_free(without);
}

/* More than a minute of a processor: the key that is being made is given up. */
Test(ready_keys, are_not_waited_for_when_the_process_ends, .timeout = 60)
{
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(ready_keys_start(READY_KEYS_MAX), 0);
        ready_keys_stop();
    }
    cr_assert_eq(ready_keys_count(), 0);
}

Test(ready_keys, are_all_that_a_new_route_needs)
{
    json_t *saml = json_object();
    problem_t problem = {0};

    cr_assert_eq(ready_keys_start(2), 0);
    wait_until_ready(2);
    cr_assert_eq(saml_keys_complete(saml, NULL, "edghtsrt_1", &problem), 0);
    cr_assert_eq(ready_keys_late(), 0, "a key was made within the request");
    ready_keys_stop();
    json_decref(saml);
}
