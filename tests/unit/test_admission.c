/* What the gateway remembers of who may call, and when it must not. */
#include "common/bus/lease.h"
#include "services/gateway/admission.h"

#include <criterion/criterion.h>

enum { NOW = 1000000 };

typedef struct scene {
    copies_t identity, routes;
    admission_t *admission;
} scene_t;

static bool take_word(scene_t *self, copy_t *copy, const char *word, const char *epoch,
                      int64_t asked_ms)
{
    char clock[24];

    snprintf(clock, sizeof(clock), "%lld", (long long)asked_ms);
    return admission_take(self->admission, copy, word, epoch, clock);
}

/* Two copies of identity and one of routes, all of which gave a lease at NOW. */
static void scene_new(scene_t *self)
{
    *self = (scene_t){.identity = {.count = 2}, .routes = {.count = 1}};
    cr_assert_eq(admission_new(&self->admission, &self->identity, &self->routes), 0);
    cr_assert(take_word(self, &self->identity.list[0], "lease", "1", NOW));
    cr_assert(take_word(self, &self->identity.list[1], "lease", "2", NOW));
    cr_assert(take_word(self, &self->routes.list[0], "lease", "3", NOW));
}

static void remember(scene_t *self, const char *token, const char *ip, int64_t now_ms)
{
    json_t *actor = json_pack("{s:s}", "id", token);

    admission_remember(self->admission, admission_generation(self->admission), token, ip, now_ms,
                       "ac_1", actor);
    json_decref(actor);
}

static bool recalls(scene_t *self, const char *token, const char *ip, int64_t now_ms)
{
    char account[64] = "";
    json_t *actor = NULL;
    bool found = admission_recall(self->admission, token, ip, now_ms, account, &actor);

    if (found) {
        cr_assert_str_eq(account, "ac_1");
        cr_assert_str_eq(json_string_value(json_object_get(actor, "id")), token);
    }
    cr_assert_eq(actor != NULL, found);
    json_decref(actor);
    return found;
}

/* Leases that are renewed, so that they are never the reason. */
static void renew_all(scene_t *self, int64_t now_ms)
{
    cr_assert_not(take_word(self, &self->identity.list[0], "lease", "1", now_ms));
    cr_assert_not(take_word(self, &self->identity.list[1], "lease", "2", now_ms));
    cr_assert_not(take_word(self, &self->routes.list[0], "lease", "3", now_ms));
}

Test(admission, remembers_a_token_at_an_address)
{
    scene_t scene;

    scene_new(&scene);
    remember(&scene, "key", "192.0.2.1", NOW);
    cr_assert(recalls(&scene, "key", "192.0.2.1", NOW));
    cr_assert_not(recalls(&scene, "key", "192.0.2.2", NOW), "the address was not asked about");
    cr_assert_not(recalls(&scene, "kez", "192.0.2.1", NOW));
    cr_assert_not(recalls(&scene, "", "192.0.2.1", NOW));
    admission_destroy(&scene.admission);
}

Test(admission, no_longer_than_every_copy_gives_a_lease)
{
    const int64_t end = NOW + LEASE_MS - ADMISSION_MARGIN_MS;
    scene_t scene;

    scene_new(&scene);
    remember(&scene, "key", "ip", NOW);
    cr_assert(recalls(&scene, "key", "ip", end - 1));
    cr_assert_not(recalls(&scene, "key", "ip", end));
    take_word(&scene, &scene.identity.list[0], "lease", "1", NOW + 500);
    take_word(&scene, &scene.routes.list[0], "lease", "3", NOW + 500);
    cr_assert_not(recalls(&scene, "key", "ip", end), "one copy says nothing");
    take_word(&scene, &scene.identity.list[1], "lease", "2", NOW + 500);
    cr_assert(recalls(&scene, "key", "ip", end),
              "what was true while leases were short of it is true still");
    admission_destroy(&scene.admission);
}

Test(admission, an_answer_to_an_older_ask_does_not_shorten_a_lease)
{
    scene_t scene;

    scene_new(&scene);
    remember(&scene, "key", "ip", NOW);
    renew_all(&scene, NOW + 600);
    renew_all(&scene, NOW + 100);
    cr_assert(recalls(&scene, "key", "ip", NOW + 600 + LEASE_MS - ADMISSION_MARGIN_MS - 1));
    admission_destroy(&scene.admission);
}

Test(admission, never_longer_than_its_time)
{
    const int64_t end = NOW + ADMISSION_REMEMBER_MS;
    scene_t scene;

    scene_new(&scene);
    remember(&scene, "key", "ip", NOW);
    renew_all(&scene, end);
    cr_assert(recalls(&scene, "key", "ip", end - 1));
    cr_assert_not(recalls(&scene, "key", "ip", end));
    admission_destroy(&scene.admission);
}

Test(admission, forgets_everything_when_one_copy_says_that_something_changed)
{
    scene_t scene;

    scene_new(&scene);
    remember(&scene, "key", "ip", NOW);
    cr_assert(take_word(&scene, &scene.routes.list[0], "revoke", "4", 0),
              "the copy waits to hear that it is done");
    cr_assert_not(recalls(&scene, "key", "ip", NOW));
    cr_assert_not(take_word(&scene, &scene.routes.list[0], "revoke", "4", 0), "said once");
    remember(&scene, "key", "ip", NOW);
    cr_assert(recalls(&scene, "key", "ip", NOW), "its lease goes on: a revocation is no end of it");
    admission_destroy(&scene.admission);
}

Test(admission, a_copy_that_was_started_again_has_another_epoch)
{
    scene_t scene;

    scene_new(&scene);
    remember(&scene, "key", "ip", NOW);
    cr_assert(take_word(&scene, &scene.identity.list[1], "lease", "77", NOW));
    cr_assert_not(recalls(&scene, "key", "ip", NOW));
    admission_destroy(&scene.admission);
}

/* The services were asked, then something changed, then their answers came. */
Test(admission, does_not_remember_what_was_asked_before_a_change)
{
    scene_t scene;
    uint64_t asked_at;
    json_t *actor = json_object();

    scene_new(&scene);
    asked_at = admission_generation(scene.admission);
    take_word(&scene, &scene.identity.list[0], "revoke", "9", 0);
    admission_remember(scene.admission, asked_at, "key", "ip", NOW, "ac_1", actor);
    cr_assert_not(recalls(&scene, "key", "ip", NOW));
    json_decref(actor);
    admission_destroy(&scene.admission);
}

Test(admission, does_not_remember_without_leases)
{
    scene_t scene;

    scene_new(&scene);
    remember(&scene, "key", "ip", NOW + LEASE_MS);
    renew_all(&scene, NOW + LEASE_MS);
    cr_assert_not(recalls(&scene, "key", "ip", NOW + LEASE_MS));
    admission_destroy(&scene.admission);
}

Test(admission, is_bounded)
{
    scene_t scene;
    char token[32];

    scene_new(&scene);
    for (int i = 0; i <= ADMISSION_ENTRIES_MAX; i++) {
        snprintf(token, sizeof(token), "key%d", i);
        remember(&scene, token, "ip", NOW);
    }
    cr_assert_not(recalls(&scene, "key0", "ip", NOW));
    cr_assert(recalls(&scene, token, "ip", NOW));
    admission_destroy(&scene.admission);
}
