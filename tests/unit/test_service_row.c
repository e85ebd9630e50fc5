/* Services: what the other tables say of those that proto/services.def has. tests/house/services
 * looks at files. */
#include "common/schema/service_row.h"
#include "common/schema/role.h"
#include "common/schema/schema.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static socket_id_t requests_of(const service_row_t *row)
{
    char domain[80];

    snprintf(domain, sizeof(domain), "%s.rpc", row->name);
    return socket_find(domain);
}

Test(service_row, every_service_is_found_by_its_name)
{
    for (int i = 0; i < SERVICES; i++) {
        const service_row_t *row = service_row((service_id_t)i);

        cr_assert_eq(service_find(row->name), i);
        cr_assert(strstr(row->about, row->name), "%s", row->about);
    }
    cr_assert_eq(service_find("route"), SERVICES);
    cr_assert_eq(service_find(""), SERVICES);
}

Test(service_row, every_service_is_a_role_of_the_bus)
{
    for (int i = 0; i < SERVICES; i++) {
        const char *name = service_row((service_id_t)i)->name;

        cr_assert_neq(role_find(name, strlen(name)), ROLE_NOBODY, "proto/roles.def lacks %s", name);
    }
}

Test(service_row, who_takes_requests_has_a_socket_for_them_and_a_role_that_may_ask)
{
    for (int i = 0; i < SERVICES; i++) {
        const service_row_t *row = service_row((service_id_t)i);
        socket_id_t id = requests_of(row);

        if (!row->has_requests)
            continue;
        cr_assert_lt(id, SOCKETS, "proto/sockets.def lacks the requests of %s", row->name);
        cr_assert_eq(socket_row(id).owner, role_find(row->name, strlen(row->name)));
        cr_assert_neq(socket_row(id).who, ROLE_NOBODY, "nobody may ask %s", row->name);
        cr_assert_eq(lease_roles(row->name) != ROLE_NOBODY, row->is_of_gateway,
                     "the gateway asks %s for leases: proto/verbs.def lacks its LEASE", row->name);
    }
}

Test(service_row, who_has_a_database_may_send_audit_events)
{
    for (int i = 0; i < SERVICES; i++) {
        const service_row_t *row = service_row((service_id_t)i);
        roles_t role = role_find(row->name, strlen(row->name));
        char producer[80];

        snprintf(producer, sizeof(producer), "outbox/%s", row->name);
        cr_assert_eq(role_may_produce(role, "", "audit", producer), row->has_database,
                     "proto/sockets.def: PRODUCER of %s", row->name);
        cr_assert_eq((socket_row(SOCKET_INTAKE).who & role) != 0, row->has_database,
                     "proto/sockets.def: INTAKE and %s", row->name);
        cr_assert(!row->has_database || row->has_requests, "a resource service takes requests");
    }
}

Test(service_row, every_kind_is_of_a_service_that_takes_requests)
{
    for (const kind_t *kind = kind_all(); kind->name; kind++) {
        service_id_t id = service_find(kind->service);

        cr_assert_lt(id, SERVICES, "%s: proto/services.def lacks %s", kind->name, kind->service);
        cr_assert(service_row(id)->has_requests && service_row(id)->has_database);
    }
}
