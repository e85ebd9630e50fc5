#include "common/bus/shares.h"
#include "common/base/cleanup.h"
#include "common/base/invariant.h"
#include "common/base/portion_rule.h"

#include <czmq.h>
#include <errno.h>

typedef struct item {
    struct item *next;
    size_t bytes;
    void *what;
    char holder[]; /* "": nobody */
} item_t;

/* Exists only while an item of this owner waits. */
typedef struct owner {
    char *name, *group; /* group "": it is of none */
    struct family *family;
    item_t *first, *last;
    size_t count, bytes;
} owner_t;

/* Owners that have one turn together; exists only while it has any. */
typedef struct family {
    char *name;
    zlistx_t *owners; /* in the order of their turns within it */
    void *place;      /* among the turns */
} family_t;

struct shares {
    zhashx_t *owners;
    zhashx_t *families;
    zlistx_t *turns; /* the same families in the order of their turns */
    bool by_first_word;
    size_t count, bytes;
    void (*destroy)(void **item);
    zhashx_t *held;    /* holder -> how many of its items are worked on; only those that have any */
    size_t held_max;   /* 0: no bound, and held is empty */
    zhashx_t *grouped; /* group -> the same, whether more of its items wait or not */
    zhashx_t *owned;   /* owner of a group -> the same */
    zhashx_t *waiting; /* group -> how many of its items wait */
    zhashx_t *waiting_bytes;
    size_t group_max, group_percent;
};

shares_t *shares_new(void (*destroy)(void **item))
{
    shares_t *self = calloc(1, sizeof(*self));

    if (!self)
        return NULL;
    self->destroy = destroy;
    self->owners = zhashx_new();
    self->families = zhashx_new();
    self->turns = zlistx_new();
    self->held = zhashx_new();
    self->grouped = zhashx_new();
    self->owned = zhashx_new();
    self->waiting = zhashx_new();
    self->waiting_bytes = zhashx_new();
    if (!self->owners || !self->families || !self->turns || !self->held || !self->grouped
        || !self->owned || !self->waiting || !self->waiting_bytes) {
        shares_destroy(&self);
        return NULL;
    }
    /* the keys are owner->name and family->name, which live as long */
    zhashx_set_key_duplicator(self->owners, NULL);
    zhashx_set_key_destructor(self->owners, NULL);
    zhashx_set_key_duplicator(self->families, NULL);
    zhashx_set_key_destructor(self->families, NULL);
    return self;
}

void shares_destroy(shares_t **self_p)
{
    shares_t *self = *self_p;
    void *what;

    if (!self)
        return;
    self->held_max = self->group_max = 0; /* what waits for others of its holder or group, too */
    while (self->turns && (what = shares_take(self)))
        if (self->destroy)
            self->destroy(&what);
    INVARIANT(!self->count && !self->bytes); /* nothing is left that nobody frees */
    zhashx_destroy(&self->owners);
    zhashx_destroy(&self->families);
    zlistx_destroy(&self->turns);
    zhashx_destroy(&self->held);
    zhashx_destroy(&self->grouped);
    zhashx_destroy(&self->owned);
    zhashx_destroy(&self->waiting);
    zhashx_destroy(&self->waiting_bytes);
    free(self);
    *self_p = NULL;
}

/* The values of these tables are numbers, not addresses. */
static size_t held_by(zhashx_t *held, const char *name)
{
    return (size_t)zhashx_lookup(held, name);
}

static void set_held(zhashx_t *held, const char *name, size_t count)
{
    if (count)
        zhashx_update(held, name, (void *)count);
    else
        zhashx_delete(held, name);
}

static int check_room(const shares_t *self, const owner_t *owner, const char *group,
                      const shares_bounds_t *bounds)
{
    if (owner && (owner->count >= bounds->own || owner->bytes >= bounds->own_bytes))
        return -EDQUOT;
    if (bounds->group
        && (held_by(self->waiting, group) >= bounds->group
            || held_by(self->waiting_bytes, group) >= bounds->group_bytes))
        return -EDQUOT;
    return self->count >= bounds->all || self->bytes >= bounds->all_bytes ? -EAGAIN : 0;
}

/* An item of that owner begins or ends to wait. */
static void count_waiting(shares_t *self, owner_t *owner, size_t bytes, int sign)
{
    const size_t one = sign > 0 ? 1 : (size_t)-1, more = sign > 0 ? bytes : -bytes;

    owner->count += one;
    owner->bytes += more;
    self->count += one;
    self->bytes += more;
    if (!*owner->group)
        return;
    set_held(self->waiting, owner->group, held_by(self->waiting, owner->group) + one);
    set_held(self->waiting_bytes, owner->group, held_by(self->waiting_bytes, owner->group) + more);
}

static void free_owner(owner_t **self_p)
{
    free((*self_p)->name);
    free((*self_p)->group);
    free(*self_p);
    *self_p = NULL;
}

static void free_family(family_t **self_p)
{
    free((*self_p)->name);
    zlistx_destroy(&(*self_p)->owners);
    free(*self_p);
    *self_p = NULL;
}

/* The family of an owner of that name; a new one is the last to have its turn. NULL: no memory. */
static family_t *need_family(shares_t *self, const char *owner)
{
    _cleanup_(free_mem) char *name =
        strndup(owner, self->by_first_word ? strcspn(owner, " ") : strlen(owner));
    family_t *family = name ? zhashx_lookup(self->families, name) : NULL;

    if (!name || family || !(family = calloc(1, sizeof(*family))))
        return family;
    family->name = take(name);
    family->owners = zlistx_new();
    family->place = family->owners ? zlistx_add_end(self->turns, family) : NULL;
    if (!family->place || zhashx_insert(self->families, family->name, family)) {
        if (family->place)
            zlistx_detach(self->turns, family->place);
        free_family(&family);
    }
    return family;
}

static void drop_if_empty(shares_t *self, family_t *family)
{
    if (zlistx_size(family->owners))
        return;
    zlistx_detach(self->turns, family->place);
    zhashx_delete(self->families, family->name);
    free_family(&family);
}

/* Append an owner to the turns of its family. NULL: no memory. */
static owner_t *add_owner(shares_t *self, const char *name, const char *group)
{
    owner_t *owner = calloc(1, sizeof(*owner));
    family_t *family = owner ? need_family(self, name) : NULL;
    void *place = NULL;

    if (family && (owner->name = strdup(name)) && (owner->group = strdup(group)))
        place = zlistx_add_end(family->owners, owner);
    if (place && !zhashx_insert(self->owners, owner->name, owner)) {
        owner->family = family;
        return owner;
    }
    if (place)
        zlistx_detach(family->owners, place);
    if (family)
        drop_if_empty(self, family);
    if (owner)
        free_owner(&owner);
    return NULL;
}

void shares_turn_by_first_word(shares_t *self)
{
    INVARIANT(!self->count);
    self->by_first_word = true;
}

int shares_put(shares_t *self, const char *name, const shares_bounds_t *bounds, size_t bytes,
               void *what)
{
    return shares_put_held(self, name, "", bounds, bytes, what);
}

int shares_put_held(shares_t *self, const char *name, const char *holder,
                    const shares_bounds_t *bounds, size_t bytes, void *what)
{
    return shares_put_grouped(self, name, "", holder, bounds, bytes, what);
}

int shares_put_grouped(shares_t *self, const char *name, const char *group, const char *holder,
                       const shares_bounds_t *bounds, size_t bytes, void *what)
{
    owner_t *owner = zhashx_lookup(self->owners, name);
    int r = check_room(self, owner, group, bounds);
    item_t *item;

    INVARIANT(!owner || (owner->first && owner->count)); /* it exists only while an item waits */
    INVARIANT(!owner || !strcmp(owner->group, group));   /* else the bounds of groups were wrong */
    if (r)
        return r;
    item = malloc(sizeof(*item) + strlen(holder) + 1);
    if (!item || (!owner && !(owner = add_owner(self, name, group)))) {
        free(item);
        return -ENOMEM;
    }
    *item = (item_t){.bytes = bytes, .what = what};
    memcpy(item->holder, holder, strlen(holder) + 1);
    if (owner->last)
        owner->last->next = item;
    else
        owner->first = item;
    owner->last = item;
    count_waiting(self, owner, bytes, 1);
    return 0;
}

void shares_bound_held(shares_t *self, size_t max)
{
    self->held_max = max;
}

void shares_bound_groups(shares_t *self, size_t max, size_t percent)
{
    self->group_max = max;
    self->group_percent = percent;
}

void shares_hold(shares_t *self, const char *holder)
{
    if (*holder && self->held_max)
        set_held(self->held, holder, held_by(self->held, holder) + 1);
}

void shares_release(shares_t *self, const char *holder)
{
    if (!*holder || !self->held_max)
        return;
    /* else its bound would be for ever too low or too high */
    INVARIANT(held_by(self->held, holder) > 0);
    set_held(self->held, holder, held_by(self->held, holder) - 1);
}

void shares_release_grouped(shares_t *self, const char *owner, const char *group)
{
    if (!*group || !self->group_max)
        return;
    INVARIANT(held_by(self->grouped, group) > 0 && held_by(self->owned, owner) > 0);
    set_held(self->grouped, group, held_by(self->grouped, group) - 1);
    set_held(self->owned, owner, held_by(self->owned, owner) - 1);
}

/* Have the others of its group, or itself, as many as they may? */
static bool is_group_at_bound(const shares_t *self, const owner_t *owner)
{
    size_t all;

    if (!*owner->group || !self->group_max)
        return false;
    all = held_by(self->grouped, owner->group);
    return all >= self->group_max
           || (self->group_percent
               && !portion_allows_one(held_by(self->owned, owner->name), self->group_max,
                                      self->group_max - all, self->group_percent));
}

static bool is_at_bound(const shares_t *self, const owner_t *owner)
{
    const char *holder = owner->first->holder;

    return (self->held_max && *holder && held_by(self->held, holder) >= self->held_max)
           || is_group_at_bound(self, owner);
}

/* The owner whose turn it is; the cursor of its family's list is on it. As many are passed
 * over as are at their bound, or have their next item of a holder at its own. */
static owner_t *find_turn(shares_t *self)
{
    for (family_t *family = zlistx_first(self->turns); family; family = zlistx_next(self->turns)) {
        owner_t *owner = zlistx_first(family->owners);

        while (owner && is_at_bound(self, owner))
            owner = zlistx_next(family->owners);
        if (owner)
            return owner;
    }
    return NULL;
}

const char *shares_next_holder(shares_t *self)
{
    owner_t *owner = find_turn(self);

    return owner ? owner->first->holder : NULL;
}

void *shares_take(shares_t *self)
{
    owner_t *owner = find_turn(self);
    item_t *item = owner ? owner->first : NULL;
    family_t *family;
    void *what;

    if (!item)
        return NULL;
    shares_hold(self, item->holder);
    if (self->group_max && *owner->group) {
        set_held(self->grouped, owner->group, held_by(self->grouped, owner->group) + 1);
        set_held(self->owned, owner->name, held_by(self->owned, owner->name) + 1);
    }
    INVARIANT(owner->count && self->count);
    INVARIANT(item->bytes <= owner->bytes && item->bytes <= self->bytes);
    what = item->what;
    family = owner->family;
    owner->first = item->next;
    count_waiting(self, owner, item->bytes, -1);
    free(item);
    zlistx_move_end(self->turns, family->place);
    if (owner->first) {
        zlistx_move_end(family->owners, zlistx_cursor(family->owners));
        return what;
    }
    INVARIANT(!owner->count && !owner->bytes);
    zlistx_detach(family->owners, zlistx_cursor(family->owners));
    zhashx_delete(self->owners, owner->name);
    free_owner(&owner);
    drop_if_empty(self, family);
    return what;
}

size_t shares_waiting(const shares_t *self)
{
    return self->count;
}

size_t shares_bytes(const shares_t *self)
{
    return self->bytes;
}
