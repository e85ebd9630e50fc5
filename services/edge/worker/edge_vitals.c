/* A record for each worker in shared memory of the master, which outlives the worker: how many
 * entries it could not apply, the state of its helper, and the entry that it is applying right now.
 * If applying an entry crashes the worker, its successor finds the entry here and counts the death
 * against it. After two deaths less of the entry is read (trust_t): it answers 503 instead of
 * crashing every worker. */
#include "services/edge/worker/edge_vitals.h"
#include "common/base/invariant.h"
#include "services/edge/table/table.h"

#include <sys/mman.h>

enum {
    WORKERS_MAX = 64,
    MASTER = WORKERS_MAX,   /* slot of the process in which the master tries the state first */
    SUSPECTS_MAX = 64,
    NAME_BYTES = 300,
    DEATHS_A_STEP = 2
};

typedef struct {
    uint64_t    entry;      /* hash of kind, id and document: another version is another entry */
    ngx_uint_t  deaths;
} suspect_t;

typedef struct {
    edge_vitals_t  vitals;
    uint64_t       applying;   /* 0: nothing */
    char           name[NAME_BYTES];
    ngx_atomic_t   next;       /* index of the suspect to be replaced next */
    suspect_t      suspects[SUSPECTS_MAX];
} slot_t;

static slot_t     *slots;
static slot_t     *own;
static slot_t      nobody;      /* used until edge_vitals_make */
static ngx_atomic_t *known;     /* shared: count of suspects in all slots; nearly always 0 */
static ngx_atomic_t *turns;     /* shared */


ngx_int_t
edge_vitals_make(ngx_log_t *log)
{
    slots = mmap(NULL, (WORKERS_MAX + 3) * sizeof(slot_t),
                 PROT_READ|PROT_WRITE, MAP_SHARED|MAP_ANONYMOUS, -1, 0);
    if (slots == MAP_FAILED) {
        slots = NULL;
        ngx_log_error(NGX_LOG_EMERG, log, ngx_errno,
                      "postern: no memory for what is known of workers");
        return NGX_ERROR;
    }
    known = &slots[WORKERS_MAX + 1].next;
    turns = &slots[WORKERS_MAX + 2].next;
    own = &slots[MASTER];
    return NGX_OK;
}


edge_vitals_t *
edge_vitals(ngx_uint_t worker)
{
    return slots && worker < WORKERS_MAX ? &slots[worker].vitals
                                         : &nobody.vitals;
}


uint64_t
edge_vitals_turn(void)
{
    return turns ? ngx_atomic_fetch_add(turns, 1) : 0;
}


/* Count a death against the entry that the slot's last process was applying when it died, if
 * any. */
static void
count_death(slot_t *slot, ngx_log_t *log)
{
    suspect_t   *suspect = NULL;
    ngx_uint_t   i;

    if (slot->applying == 0) {
        return;
    }
    for (i = 0; i < SUSPECTS_MAX; i++) {
        if (slot->suspects[i].entry == slot->applying) {
            suspect = &slot->suspects[i];
        }
    }
    if (suspect == NULL) {
        suspect = &slot->suspects[slot->next++ % SUSPECTS_MAX];
        suspect->entry = slot->applying;
        suspect->deaths = 0;
        (void) ngx_atomic_fetch_add(known, 1);
    }
    suspect->deaths++;
    slot->applying = 0;
    ngx_log_error(NGX_LOG_ALERT, log, 0,
                  "postern: a process ended while it applied %s", slot->name);
}


/* From now on this process uses the worker's slot; an earlier one may have died while applying. */
void
edge_vitals_open(ngx_uint_t worker, ngx_log_t *log)
{
    INVARIANT(slots && worker < WORKERS_MAX);   /* see edge_ring_make */
    own = &slots[worker];
    count_death(own, log);
    own->vitals.request_bytes = 0;   /* an earlier one gives nothing back */
    own->vitals.lent_bytes = 0;
    own->vitals.encoder_bytes = 0;
}


ngx_uint_t
edge_vitals_trial_died(ngx_log_t *log)
{
    if (slots[MASTER].applying == 0) {
        return 0;
    }
    count_death(&slots[MASTER], log);
    return 1;
}


/* How many processes died while they applied this entry, in all slots. */
static ngx_uint_t
deaths_of(uint64_t entry)
{
    ngx_uint_t  i, k, deaths = 0;

    if (*known == 0) {
        return 0;
    }
    for (i = 0; i <= MASTER; i++) {
        for (k = 0; k < SUSPECTS_MAX; k++) {
            if (slots[i].suspects[k].entry == entry) {
                deaths += slots[i].suspects[k].deaths;
            }
        }
    }
    return deaths;
}


/* A hash of an entry. Eight bytes at a time, because it runs for each entry of a snapshot. */
static uint64_t
hash_of(const u_char *data, size_t len)
{
    size_t    n;
    uint64_t  hash = len, word;

    while (len > 0) {
        word = 0;
        n = ngx_min(len, sizeof(word));
        ngx_memcpy(&word, data, n);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
        data += n;
        len -= n;
    }
    return hash ? hash : 1;
}


trust_t
edge_vitals_begin(const ngx_str_t *kind, const ngx_str_t *id,
    const ngx_str_t *entry, ngx_log_t *log)
{
    uint64_t    hash = hash_of(entry->data, entry->len);
    ngx_uint_t  deaths = deaths_of(hash);

    ngx_snprintf((u_char *) own->name, NAME_BYTES, "%V %V%Z", kind, id);
    own->name[NAME_BYTES - 1] = '\0';
    INVARIANT(own && hash != 0);
    __atomic_store_n(&own->applying, hash, __ATOMIC_RELEASE);
    if (deaths < DEATHS_A_STEP) {
        return TRUST_ALL;
    }
    ngx_log_error(NGX_LOG_ALERT, log, 0,
                  "postern: %s is set aside: %ui processes ended while they "
                  "applied it. What it stands for answers 503", own->name,
                  deaths);
    return ngx_min(deaths / DEATHS_A_STEP, TRUST_SKIP);
}


void
edge_vitals_end(void)
{
    __atomic_store_n(&own->applying, 0, __ATOMIC_RELEASE);
}
