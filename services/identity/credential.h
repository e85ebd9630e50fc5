/* credential and ssh_credential: how agents and SSH clients prove who they are. */
#pragma once

#include "common/resource/crud.h"

int credential_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                     problem_t *problem);
int ssh_credential_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                         problem_t *problem);
