/* Versions of routes and backends that are no more in force, but that requests still use: each
 * keeps its versions until it ends, which may be days. What an account may keep so is bounded, by
 * an estimate of its bytes, and so is what all of them may: the less of that is left, the less may
 * an account keep (http/portion.h). Beyond, its oldest versions are over, and the requests of one
 * that is over are ended. In this process; for one thread only. No nginx in here. */
#pragma once

#include "services/edge/table/table.h"

enum {
    RETIRED_ALL_MAX = 256 << 20,  /* of the versions that are retired, and not over */
    RETIRED_BYTES_MAX = 16 << 20, /* and of those of an account, while a fourth of all is free */
    RETIRED_BASE = 8 << 10        /* of a version whatever it says: parsed keys, blocks of memory */
};

typedef enum { RETIRED_ROUTE, RETIRED_BACKEND } retired_kind_t;

/* Whose version it is; the texts are borrowed, and live as long as the version. */
typedef struct retired_entry {
    retired_kind_t kind;
    const char *id;
    const char *account_id; /* NULL: nobody's; all of these are one account's */
} retired_entry_t;

typedef struct retired retired_t;

/* What an entry of which this is the document takes in memory: an estimate, without what modules
 * say of their own (bytes of module.h). */
size_t retired_weight(const msgpack_object *document);

/* The table has let go of the version, and somebody else has a reference. It is forgotten with the
 * last one. */
void retired_add(version_t *version, const retired_entry_t *entry);

/* The last reference to the version goes; one that is not retired is none of ours. */
void retired_forget(version_t *version);

/* Whom to tell that a version is over (is_over of version_t): its requests are to be ended. NULL:
 * nobody, and then none is over. */
void retired_set_over(void (*over)(const retired_entry_t *entry));

/* The account's estimate, without versions that are over; NULL: that of all accounts. */
size_t retired_bytes(const char *account_id);
