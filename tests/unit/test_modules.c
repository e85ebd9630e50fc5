/* proto/modules.def and proto/kinds/https_edge_route.def tell of the same modules. */
#include "common/schema/schema.h"

#include <criterion/criterion.h>

static const char *const names[] = {
#define MODULE(id, name, file, decision) #name,
#include "proto/modules.def"
};

Test(modules, every_row_is_a_module_of_a_route)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        cr_assert_not_null(kind_module(kind_find("https_edge_route"), names[i]), "%s", names[i]);
}

/* One that the edge did not know of would be served as if it were off. */
Test(modules, every_module_of_a_route_is_a_row)
{
    size_t count = 0;

    for (const field_t *field = kind_find("https_edge_route")->type.fields; field->name; field++)
        count += kind_module(kind_find("https_edge_route"), field->name) != NULL;
    cr_assert_eq(count, sizeof(names) / sizeof(names[0]));
}
