/* Who a person is to revocations: the same text as another form of a SAML name is somebody else, and
 * what versions before have noted still counts. */
#include "services/identity/session.h"

#include <criterion/criterion.h>
#include <string.h>

static void hash_of(const char *name, const char *id, const char *form, char out[WORDS_HEX_SIZE])
{
    session_person_hash("ac_1",
                        &(person_t){.provider_name = (char *)name,
                                    .provider_url = "https://idp.test",
                                    .id = (char *)id,
                                    .name_form = (char *)form},
                        out);
}

Test(session_person, without_a_form_has_the_hash_that_it_has_always_had)
{
    static const char *const none[] = {NULL, ""};
    char hash[WORDS_HEX_SIZE], before[WORDS_HEX_SIZE];

    words_hex("ac_1\noidc\nhttps://idp.test\nada\n", before);
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        hash_of("oidc", "ada", none[i], hash);
        cr_assert_str_eq(hash, before);
    }
}

Test(session_person, is_another_one_by_another_form_of_the_name)
{
    static const struct {
        const char *name, *id, *form;
    } people[] = {
        {"saml", "ada", ""},         {"saml", "ada", "- - -"},    {"saml", "ada", "ab12 - -"},
        {"saml", "ada", "- ab12 -"}, {"saml", "ada", "- - ab12"}, {"saml", "bob", "- - -"},
        {"oidc", "ada", "- - -"},
    };
    char hashes[sizeof(people) / sizeof(people[0])][WORDS_HEX_SIZE], sidless[WORDS_HEX_SIZE];

    for (size_t i = 0; i < sizeof(people) / sizeof(people[0]); i++) {
        hash_of(people[i].name, people[i].id, people[i].form, hashes[i]);
        for (size_t other = 0; other < i; other++)
            cr_assert_str_neq(hashes[i], hashes[other], "%zu and %zu", other, i);
        session_sidless_hash("ac_1",
                             &(person_t){.provider_name = (char *)people[i].name,
                                         .provider_url = "https://idp.test",
                                         .id = (char *)people[i].id},
                             sidless);
        cr_assert_str_neq(hashes[i], sidless, "whose session is not known is another one, too");
    }
}
