/* Rules of vaults and secrets beyond their tables. */
#pragma once

#include "common/resource/crud.h"

/* Note who changed the vault and when; a new name is copied to its secrets. */
int vault_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                problem_t *problem);

/* Find the vault by vault_id or vault_name, which must not contradict each other. */
int secret_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                 problem_t *problem);
