#include "services/edge/worker/edge_worker.h"
#include "services/edge/worker/edge_apply.h"
#include "common/base/invariant.h"

enum { AT_ONCE = 10000 };   /* objects freed per call of table_free_some */

static edge_worker_hooks_t  hooks;
static table_t             *table;      /* in force */
static table_t             *building;   /* filled from an arriving snapshot; NULL: none arrives */
static table_t             *retired;    /* list of tables to be freed in the background */
static follow_t             at;
static void               (*refresh)(void);   /* NULL: this process is no worker yet */


static table_t *
make_table(void)
{
    table_t  *made = table_new();

    made->free_parsed = hooks.free_parsed;
    made->backend_added = hooks.backend_added;
    made->route_added = hooks.route_added;
    return made;
}


void
edge_worker_init(const edge_worker_hooks_t *set)
{
    hooks = *set;
    if (table == NULL) {
        table = make_table();
        table->route_gone = hooks.route_gone;
    }
}


table_t *
edge_worker_table(void)
{
    return table;
}


const follow_t *
edge_worker_at(void)
{
    return &at;
}


/* Freed in the background, a little at a time. */
static void
retire_table(table_t *old)
{
    INVARIANT(old != NULL && old->next == NULL && old != retired);
    old->next = retired;
    retired = old;
}


static void
drop_building(void)
{
    if (building) {
        retire_table(building);
        building = NULL;
    }
}


static void
begin_snapshot(void)
{
    drop_building();
    building = make_table();
    building->before = table;
}


static void
end_snapshot(void)
{
    INVARIANT(building != NULL && building != table);
    building->before = NULL;
    retire_table(table);
    table = building;
    building = NULL;
    table->route_gone = hooks.route_gone;
    hooks.in_force(table);
    hooks.touched(&(stream_key_t) { STREAM_ALL, "", 0 });
}


follow_step_t
edge_worker_take(const follow_message_t *message, const void *body, size_t len,
    ngx_log_t *log)
{
    ngx_int_t      rc = NGX_OK;
    follow_step_t  step = follow_take(&at, message);

    if (building && !at.arriving && step != FOLLOW_END) {
        drop_building();
    }
    switch (step) {
    case FOLLOW_BEGIN:
        begin_snapshot();
        /* fall through */
    case FOLLOW_ADD:
        INVARIANT(building != NULL);
        rc = edge_apply(building, body, len, log, NULL);
        break;
    case FOLLOW_END:
        end_snapshot();
        break;
    case FOLLOW_CHANGE:
        rc = edge_apply(table, body, len, log, hooks.touched);
        break;
    default:
        break;
    }
    if (rc != NGX_OK) {
        follow_failed(&at, message);
        drop_building();
        step = FOLLOW_FAILED;
    }
    INVARIANT(at.arriving == (building != NULL));
    return step;
}


void
edge_worker_refresh(void)
{
    if (refresh) {
        refresh();
    }
}


void
edge_worker_set_refresh(void (*handler)(void))
{
    refresh = handler;
}


void
edge_worker_want_all(void)
{
    at.wants_all = true;
}


void
edge_worker_drop_arriving(ngx_uint_t at_once)
{
    follow_drop(&at);
    if (!at_once) {
        drop_building();
    }
    while (building && !table_free_some(&building, AT_ONCE)) { /* void */ }
}


void
edge_worker_reread(void)
{
    at.revision = 0;
}


ngx_uint_t
edge_worker_free_some(size_t objects)
{
    table_t  *next;

    if (retired) {
        next = retired->next;
        if (table_free_some(&retired, objects)) {
            retired = next;
        }
    }
    return retired != NULL;
}
