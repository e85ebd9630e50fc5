/* Rules of a kind beyond its table, in a file of its service. Each kind whose row says HAS_RULES
 * must have exactly one kind_rules_t in its service's program, and no other kind may have one:
 * otherwise the service does not start, because a kind without its rules would be a kind without
 * checks. */
#pragma once

#include "common/resource/crud.h"

typedef struct kind_rules {
    const char *kind;

    /* Rules beyond the table, on the complete document with secrets in clear; may normalise it, add
     * columns and add references ([path, id] pairs). old is NULL at create. 0 | code | fault. */
    int (*check)(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                 problem_t *problem);

    /* What only the creation response carries; row is the stored row. 0 | fault. */
    int (*created)(crud_t *crud, const json_t *row, json_t *rendered);

    /* The document that edges get, a new reference; *ret_document NULL: edges do not get the
     * kind. */
    int (*publish)(crud_t *crud, const json_t *row, json_t **ret_document);

    /* Before the row that a call deletes is locked: take the locks that others take before rows.
     * The id is of the path, and need not be of the account, or of any row: that is found out
     * after this. 0 | fault. */
    int (*lock_first)(crud_t *crud, const char *id);

    /* May a row be deleted by a call of its own? 0 | code: it stays | fault. */
    int (*keep)(crud_t *crud, const json_t *row, problem_t *problem);

    /* Before a row is deleted by a call of its own (not with its parent). Removes config log
     * entries that publish wrote under other names than kind and id. 0 | code: the row stays |
     * fault. */
    int (*retire)(crud_t *crud, const json_t *row, problem_t *problem);

    /* A row is being deleted, by a call of its own or with its parent: write to the service's log
     * what edges must know of it. 0 | fault. */
    int (*gone)(crud_t *crud, const json_t *row);

    /* The object that an id of another kind stands for, where a path names it so. 0 |
     * ERR_ID_MALFORMED: none of those either | ERR_NOT_FOUND | fault. */
    int (*named)(crud_t *crud, const char *id, char out[ID_MAX]);

    /* Carry out a command of proto/kinds.def; only commands that may be carried out twice. 0
     * | code | fault. */
    int (*command)(crud_t *crud, const json_t *row, const char *name, problem_t *problem);
} kind_rules_t;

/* Define the rules of a kind: KIND_RULES(vault, .check = vault_check). The linker collects the
 * rules of all files of a program in one section. Nothing refers to them by name, so retain keeps a
 * linker from dropping them. */
#if defined(__has_attribute) && __has_attribute(retain)
#define KIND_RULES_KEPT used, retain
#else
#define KIND_RULES_KEPT used
#endif
#define KIND_RULES(kind_, ...)                                                                     \
    static const kind_rules_t rules_of_##kind_ = {.kind = #kind_, __VA_ARGS__};                    \
    static const kind_rules_t *const rules_row_##kind_                                             \
        __attribute__((section("kind_rules"), KIND_RULES_KEPT)) = &rules_of_##kind_

/* The rules of a kind in this program; NULL: the kind has none. */
const kind_rules_t *kind_rules_find(const kind_t *kind);

/* Are the rows what the kinds of the service need? 0 | -EINVAL: one is missing, given twice, empty,
 * of no kind, or of a kind that has no rules or is another service's. */
int kind_rules_check(const char *service, const kind_rules_t *const *rows, size_t count);

/* The same of the rows of this program. */
int kind_rules_check_own(const char *service);
