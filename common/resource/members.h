/* The items of a LISTED field in the stored list, each identified by its key. */
#pragma once

#include "common/schema/schema.h"

/* Index of the item with that key; -1: there is none. key may be NULL. */
int members_find(const json_t *list, const field_t *field, const char *key);

/* Check a new item and put it at the list's end. *ret_item: the item there, borrowed. 0 | a code,
 * also when the list is full | fault. */
int members_add(const field_t *field, json_t *list, const json_t *document, problem_t *problem,
                const json_t **ret_item);

/* Check what is to change of the item at that place, and change it. 0 | code | fault, and then
 * nothing is changed. */
int members_update(const field_t *field, json_t *list, size_t at, const json_t *document,
                   problem_t *problem);
