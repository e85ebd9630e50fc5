#include "common/resource/columns.h"

#include <criterion/criterion.h>
#include <string.h>

static const field_t *field_of(const char *kind, const char *name)
{
    return field_find(&kind_find(kind)->type, name);
}

Test(columns, what_is_stored_has_one)
{
    cr_assert(columns_has(field_of("endpoint", "id")));
    cr_assert(columns_has(field_of("ssh_certificate_authority", "private_key_pem")), "hidden");
    cr_assert(columns_has(field_of("https_edge_route", "match")));
    cr_assert(columns_has(field_of("https_edge_route", "saml")), "a module");
}

Test(columns, what_is_made_when_it_is_rendered_has_none)
{
    cr_assert_not(columns_has(field_of("endpoint", "uri")));
    cr_assert_not(columns_has(field_of("endpoint", "tunnel")), "always null");
    cr_assert_not(columns_has(field_of("https_edge", "routes")), "children");
}

Test(columns, what_only_rules_read_has_none)
{
    cr_assert_not(columns_has(field_of("ssh_certificate_authority", "key_size")));
}
