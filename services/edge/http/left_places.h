/* How many sockets a worker may leave to upstreams that have not taken all (edge_unsent_left.c). No
 * nginx in here. */
#pragma once

#include <stddef.h>

enum {
    LEFT_PLACES = 1024,
    LEFT_PLACES_FEW = 32,  /* where there are not even open files for all connections */
    LEFT_FILES_BESIDE = 64 /* open files of a worker that are neither: it has some 30 */
};

/* Where each of so many connections may need an open file, and the process may have so many of
 * these: as many as are left, so that no connection lacks one for what others have left. */
static inline size_t left_places(size_t connections, size_t files)
{
    size_t needed = connections + LEFT_FILES_BESIDE, spare = files > needed ? files - needed : 0;

    spare = spare > LEFT_PLACES_FEW ? spare : LEFT_PLACES_FEW;
    return spare < LEFT_PLACES ? spare : LEFT_PLACES;
}
