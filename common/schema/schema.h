/* The tables in memory, and what is generic over them: check, default, render, seal.
 * A stored document has a field's write name (backend_id); a rendered one its name (backend). */
#pragma once

#include "common/base/err.h"
#include "common/base/secret.h"

#include <jansson.h>
#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum field_type {
    STR, /* UTF-8; max in bytes */
    BOOL,
    U32,
    I32,
    I64,
    F64,
    TIME,       /* RFC 3339 UTC, whole seconds */
    STRINGS,    /* list of strings; min and max in items */
    STRMAP,     /* string to string; max in pairs */
    WEIGHT_MAP, /* id to whole number from 0 to min; max in pairs */
    NESTED,     /* one object of a type */
    NESTEDS,    /* list of them */
    REFERENCE,  /* written as an id, rendered as {id, uri} */
    REFERENCES, /* written as a list of ids, rendered as a list of {id, uri} */
    CHILDREN,   /* rendered list of another kind's objects */
    NONE        /* always null */
} field_type_t;

enum {
    REQUIRED = 1 << 0,   /* at create: present, not null, not empty */
    READ_ONLY = 1 << 1,  /* never in a request body; tolerated there when clients echo it is not */
    IMMUTABLE = 1 << 2,  /* at create only */
    NULLABLE = 1 << 3,   /* may be null when rendered */
    WRITE_ONLY = 1 << 4, /* never rendered */
    SEALED = 1 << 5,     /* encrypted at rest */
    KEEP_EMPTY = 1 << 6, /* "", [] or {} in an update means unchanged */
    LOWER_KEYS = 1 << 7, /* map keys are folded to lower case */
    ALWAYS = 1 << 8,     /* an absent object gets its defaults instead of null */
    PATH = 1 << 9,       /* comes from the path */
    COMPUTED = 1 << 10,  /* has no column */
    HIDDEN = 1 << 11,    /* stored, never rendered, never written */
    MODULE = 1 << 12,    /* an object with a path of its own below its owner's */
    OWNER = 1 << 13,     /* the reference's target takes the object along when it is deleted */
    PLAIN = 1 << 14,     /* references that are rendered as ids */
    FILTER = 1 << 15,    /* a list's filter may use it, where the kind has FILTERS */
    LISTED = 1 << 16,    /* a list of objects whose items have paths; values is their key's name */
    DETACH = 1 << 18,    /* DELETE on <object>/<name> sets it to null */
    QUERY =
        1 << 19, /* a list takes it as query parameter, several times or with commas: any of them */
    BLANK = 1 << 17 /* rendered as "": a secret that clients want to see a field for */
};

enum {
    CREATE = 1,
    GET = 2,
    LIST = 4,
    UPDATE = 8,
    DELETE = 16,
    NO_EMPTY_UPDATE = 32, /* an update that sets nothing is an error */
    /* on one module of an object, wherever it has UPDATE */
    REPLACE_MODULE = 64,
    GET_MODULE = 128,
    DELETE_MODULE = 256,
    FILTERS = 512, /* its list takes a filter */
    /* on one item of a LISTED field */
    CREATE_MEMBER = 1024,
    LIST_MEMBERS = 2048,
    GET_MEMBER = 4096,
    UPDATE_MEMBER = 8192,
    DELETE_MEMBER = 16384,
    /* a change of it may change who may call: gateways forget what they know before it is answered */
    ADMITS = 32768,
    CREATE_ADMITS = 65536, /* so may a new one */
    COMMAND = 1 << 20      /* of proto/commands.def */
};

typedef struct object_type object_type_t;

typedef struct field {
    const char *name;
    const char *write_name; /* references only, else NULL */
    field_type_t type;
    unsigned flags;
    double min, max;
    const char *values;   /* a|b|c, or @format */
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
    unsigned operations;
    object_type_t type;
} kind_t;

/* All kinds, ended by a NULL name. */
const kind_t *kind_all(void);
const kind_t *kind_find(const char *name);

/* By the id's prefix; NULL when none. */
const kind_t *kind_of_id(const char *id);

const field_t *field_find(const object_type_t *type, const char *name);

/* The key under which a stored document holds the field. */
const char *field_key(const field_t *field);

/* Check a request body of CREATE or UPDATE against the table and build the stored document: for
 * CREATE complete with defaults, for UPDATE only what changes. old: the stored document that UPDATE is for, secrets in
 * clear; an IMMUTABLE field may be sent again as it stands there. Every problem found is added.
 * 0 | the first problem's code. *ret_document is the caller's, set only on 0. */
int schema_check(const kind_t *kind, unsigned operation, const json_t *old, const json_t *body,
                 problem_t *problem, json_t **ret_document);

/* The same for one whole module: what the body leaves out gets its default. */
int schema_check_module(const field_t *module, const json_t *body, problem_t *problem,
                        json_t **ret_module);

/* The reference to what an object of the kind belongs to, when that is not in its path; else NULL. */
const field_t *kind_owner(const kind_t *kind);

/* The module of that name; NULL when the kind has none. */
const field_t *kind_module(const kind_t *kind, const char *name);

/* The QUERY field that a list's query parameter names, in the singular or the plural; NULL: none. */
const field_t *kind_query(const kind_t *kind, const char *name);

/* The DETACH field of that name; NULL when the kind has none. */
const field_t *kind_detachable(const kind_t *kind, const char *name);

/* Does the kind have this command? */
bool kind_command(const kind_t *kind, const char *name);

/* The LISTED field of that name; NULL when the kind has none. */
const field_t *kind_members(const kind_t *kind, const char *name);

/* Check one item of a LISTED field: for CREATE complete with defaults, for UPDATE of old only what changes. */
int schema_check_member(const field_t *members, unsigned operation, const json_t *old,
                        const json_t *body, problem_t *problem, json_t **ret_member);

/* Does the empty value of the field's type ("", 0, [], {}) mean that it was not given? Generated clients send it for what
 * their caller left out. */
bool schema_empty_is_absent(const field_t *field, unsigned operation);

/* The API's representation of a stored row, as JSON text, without what stands in other rows (CHILDREN) and the uris of
 * LISTED items. row: the text of an object as PostgreSQL prints jsonb; what it holds is copied as it stands there.
 * base_url has no trailing slash. 0 | -EINVAL (not such text) | -ENOMEM. */
int schema_text(msgpack_sbuffer *out, const kind_t *kind, const char *row, const char *base_url);

/* Is what schema_text makes of this kind whole? */
bool schema_text_is_whole(const kind_t *kind);

/* A string of a row's text that has no escapes, such as an id. 0 | -EINVAL: there is none, or it does not fit. */
int schema_text_member(const char *row, const char *name, char *out, size_t size);

/* All of it, as a tree: the same values in the same order. CHILDREN are null. NULL when out of memory. */
json_t *schema_render(const kind_t *kind, const json_t *row, const char *base_url);

/* Absolute uri of an object; parent_id where the kind has a parent, else NULL. Caller frees. */
char *schema_uri(const kind_t *kind, const char *id, const char *parent_id, const char *base_url);

bool schema_has_secrets(const kind_t *kind);

/* Encrypt or decrypt, in place, every SEALED string of a stored document. 0 | -EBADMSG | -ENOMEM. */
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
