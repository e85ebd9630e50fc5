/* The tables in memory, and functions that work on any of them: check, default, render, seal.
 * A stored document has a field's write name (backend_id); a rendered one its name (backend). */
#pragma once

#include "common/base/err.h"
#include "common/base/secret.h"
#include "common/schema/operation.h"

#include <assert.h>
#include <jansson.h>
#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum field_type {
    FIELD_STR, /* UTF-8; max in bytes */
    FIELD_BOOL,
    FIELD_U32,
    FIELD_I32,
    FIELD_I64,
    FIELD_F64,
    FIELD_TIME,       /* RFC 3339 UTC, whole seconds */
    FIELD_STRINGS,    /* list of strings; min and max in items */
    FIELD_STRMAP,     /* string to string; max in pairs */
    FIELD_WEIGHT_MAP, /* id or name to whole number from 0 to highest; max in pairs */
    FIELD_NESTED,     /* one object of a type */
    FIELD_NESTEDS,    /* list of them */
    FIELD_REFERENCE,  /* written as an id, rendered as {id, uri} */
    FIELD_REFERENCES, /* written as a list of ids, rendered as a list of {id, uri} */
    FIELD_CHILDREN,   /* rendered list of another kind's objects */
    FIELD_NONE        /* always null */
} field_type_t;

enum {
    FIELD_REQUIRED = 1 << 0,   /* at create: present, not null, not empty */
    FIELD_READ_ONLY = 1 << 1,  /* a request body with it is refused, unless it says null */
    FIELD_IMMUTABLE = 1 << 2,  /* at create only */
    FIELD_NULLABLE = 1 << 3,   /* may be null when rendered */
    FIELD_WRITE_ONLY = 1 << 4, /* never rendered */
    FIELD_SEALED = 1 << 5,     /* encrypted at rest */
    FIELD_KEEP_EMPTY = 1 << 6, /* "", [] or {} in an update means unchanged */
    FIELD_LOWER_KEYS = 1 << 7, /* map keys are folded to lower case */
    FIELD_ALWAYS = 1 << 8,     /* an absent object gets its defaults instead of null */
    FIELD_PATH = 1 << 9,       /* comes from the path */
    FIELD_COMPUTED = 1 << 10,  /* has no column */
    FIELD_HIDDEN = 1 << 11,    /* stored, never rendered, never written */
    FIELD_MODULE = 1 << 12,    /* an object with a path of its own below its owner's */
    FIELD_OWNER = 1 << 13,  /* the reference's target takes the object along when it is deleted */
    FIELD_PLAIN = 1 << 14,  /* references that are rendered as ids */
    FIELD_FILTER = 1 << 15, /* a list's filter may use it, where the kind has FILTERS */
    FIELD_LISTED = 1 << 16, /* a list of objects whose items have paths */
    FIELD_DETACH = 1 << 18, /* DELETE on <object>/<name> sets it to null */
    FIELD_QUERY =
        1 << 19, /* a list takes it as query parameter, several times or with commas: any of them */
    FIELD_BLANK = 1 << 17, /* rendered as "": a secret that clients want to see a field for */
    FIELD_INPUT = 1 << 20, /* only the kind's rules read it, at create: it has no column */
    /* also COMPUTED: a function <kind>_<field> of the database says it for a row */
    FIELD_DERIVED = 1 << 21,
    FIELD_ENDS = 1 << 22 /* a time from which on nobody is shown the object, if it is still there */
};

/* Further flags of a kind, in one word with its operations. */
enum {
    KIND_NO_EMPTY_UPDATE = 1 << 20, /* an update that sets nothing is an error */
    KIND_FILTERS = 1 << 21,         /* its list takes a filter */
    /* a change may affect who may call the API: gateways drop their caches before it is answered */
    KIND_ADMITS = 1 << 22,
    KIND_CREATE_ADMITS = 1 << 23, /* so may the creation of an object */
    KIND_HAS_RULES = 1 << 24,     /* its service's program has rules for it */
    KIND_SLOW = 1 << 25           /* creating one may compute for seconds: callers wait longer */
};
static_assert(OPERATIONS <= 20, "a kind has its operations and its own bits in one word");

typedef struct object_type object_type_t;

typedef struct field {
    const char *name;
    const char *write_name; /* references only, else NULL */
    field_type_t type;
    unsigned flags;
    double min, max;      /* of a number; else how long, or how many */
    double highest;       /* that a weight may be */
    const char *allowed;  /* as the table says it: field_choices, field_format */
    const char *key;      /* of a LISTED field's items: the name of the one that finds an item */
    const char *fallback; /* JSON text; NULL: none */
    int outcome;          /* when the value breaks its rule */
    const char *meaning;
    const object_type_t *object; /* NESTED, NESTEDS */
    const char *kinds;           /* references and children: kind names a|b */
} field_t;

struct object_type {
    const char *name;
    const field_t *fields; /* ended by a NULL name */
};

typedef struct kind {
    const char *name, *prefix, *service, *audit, *list_key, *path, *parent_key;
    unsigned operations; /* bits of OPERATION_... and KIND_... */
    object_type_t type;
} kind_t;

/* Further rows of proto/kinds/<name>.def. */
typedef struct kind_command {
    const char *kind, *name, *meaning;
} kind_command_t;

typedef struct kind_list {
    const char *kind, *head, *tail; /* of the path, around the id of the other object */
    const char *key;                /* the field that refers to it */
} kind_list_t;

typedef struct kind_alias {
    const char *kind, *word, *field;
} kind_alias_t;

typedef struct kind_unique {
    const char *constraint;
    int outcome;
    const char *field, *text;
} kind_unique_t;

/* All rows, ended by one with a NULL kind. */
const kind_command_t *kind_commands(void);
const kind_list_t *kind_lists(void);
const kind_alias_t *kind_aliases(void);

/* The answer when a path names a parent that is not the object's. */
int kind_wrong_parent(const kind_t *kind);

/* The error for a violated unique constraint; NULL: not a constraint of a kind. */
const kind_unique_t *kind_unique(const char *constraint);

/* All kinds, ended by a NULL name. */
const kind_t *kind_all(void);
const kind_t *kind_find(const char *name);

/* By the id's prefix; NULL when none. */
const kind_t *kind_of_id(const char *id);

/* By the key of a stored document (field_key); NULL: there is none. */
const field_t *field_find(const object_type_t *type, const char *name);

/* The key under which a stored document holds the field. */
const char *field_key(const field_t *field);

/* Check a request body of CREATE or UPDATE against the table and build the stored document: for
 * CREATE complete with defaults, for UPDATE only what changes. old: the stored document that
 * UPDATE is for, secrets in clear; an IMMUTABLE field may be sent again as it stands there.
 * Every problem found is added. 0 | the first problem's code. *ret_document is the caller's, set
 * only on 0. */
int schema_check(const kind_t *kind, unsigned operation, const json_t *old, const json_t *body,
                 problem_t *problem, json_t **ret_document);

/* The same for one whole module: what the body leaves out gets its default. */
int schema_check_module(const field_t *module, const json_t *body, problem_t *problem,
                        json_t **ret_module);

/* What a text, or each text of a list, must be: one of a|b|c; something that the format of this
 * name permits (common/schema/format.h). NULL: the field has no such rule. */
const char *field_choices(const field_t *field);
const char *field_format(const field_t *field);

/* The reference to what an object of the kind belongs to, when that is not in its path; else
 * NULL. */
const field_t *kind_owner(const kind_t *kind);

/* The kind whose objects have those of this kind as CHILDREN; every kind with a parent_key has
 * one. NULL: none. */
const kind_t *kind_parent(const kind_t *kind);

/* The module of that name; NULL when the kind has none. */
const field_t *kind_module(const kind_t *kind, const char *name);

/* The QUERY field that a list's query parameter names, in the singular or the plural; NULL:
 * none. */
const field_t *kind_query(const kind_t *kind, const char *name);

/* The DETACH field of that name; NULL when the kind has none. */
const field_t *kind_detachable(const kind_t *kind, const char *name);

/* Does the kind have this command? */
bool kind_command(const kind_t *kind, const char *name);

/* The LISTED field of that name; NULL when the kind has none. */
const field_t *kind_members(const kind_t *kind, const char *name);

/* Check one item of a LISTED field: for CREATE complete with defaults, for UPDATE of old only
 * what changes. */
int schema_check_member(const field_t *members, unsigned operation, const json_t *old,
                        const json_t *body, problem_t *problem, json_t **ret_member);

/* Does the empty value of the field's type ("", 0, [], {}) mean that it was not given? Generated
 * clients send it for what their caller left out. */
bool schema_empty_is_absent(const field_t *field, unsigned operation);

/* The API's representation of a stored row, as JSON text, without what stands in other rows
 * (CHILDREN) and the uris of LISTED items. row: the text of an object as PostgreSQL prints
 * jsonb; what it holds is copied as it stands there. base_url has no trailing slash. 0 | -EINVAL
 * (not such text) | -ENOMEM. */
int schema_text(msgpack_sbuffer *out, const kind_t *kind, const char *row, const char *base_url);

/* Is schema_text's representation of this kind complete: no CHILDREN, no uris of LISTED items? */
bool schema_text_is_whole(const kind_t *kind);

/* A string of a row's text that has no escapes, such as an id. 0 | -EINVAL: there is none, or it
 * does not fit. */
int schema_text_member(const char *row, const char *name, char *out, size_t size);

/* All of it, as a tree: the same values in the same order. CHILDREN are null. NULL when out of
 * memory. */
json_t *schema_render(const kind_t *kind, const json_t *row, const char *base_url);

/* Absolute uri of an object; parent_id where the kind has a parent, else NULL. Caller frees. */
char *schema_uri(const kind_t *kind, const char *id, const char *parent_id, const char *base_url);

/* Does the kind have a SEALED field, at any depth? */
bool schema_has_secrets(const kind_t *kind);

/* Encrypt or decrypt, in place, every SEALED string of a stored document. 0 | -EBADMSG |
 * -ENOMEM. */
int schema_seal(const kind_t *kind, json_t *document, const secret_key_t *key);
int schema_unseal(const kind_t *kind, json_t *document, const secret_key_t *key);

/* Replace every non-empty SEALED string of a rendered object by "***" (audit events). */
void schema_mask(const kind_t *kind, json_t *rendered);

/* Every id that the document refers to, as [field path, id] pairs in a new array. */
json_t *schema_references(const kind_t *kind, const json_t *document);

/* OpenAPI 3.1 description of all kinds. */
json_t *schema_openapi(const char *base_url);

/* True when the a|b|c list has text. */
bool schema_in_list(const char *list, const char *text);
