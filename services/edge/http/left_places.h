/* How many sockets a worker may leave to upstreams that have not taken all (edge_unsent_left.c). No
 * nginx in here. */
#pragma once

#include <stddef.h>

enum {
    LEFT_PLACES = 1024,
    LEFT_PLACES_FEW = 32,  /* where there are not even open files for all connections */
    LEFT_FILES_BESIDE = 64 /* open files of a worker that are none of these: it has some 20 */
};

/* Open files of a worker that no connection needs: it inherits the sockets on which all workers
 * listen, and has a channel to each. */
static inline size_t left_files_beside(size_t listening, size_t workers)
{
    return LEFT_FILES_BESIDE + listening + workers;
}

/* Where each of so many connections may need an open file, so many others are open, and the process
 * may have so many files: as many as are left, so that no connection lacks one for what others have
 * left. */
static inline size_t left_places(size_t connections, size_t beside, size_t files)
{
    size_t needed = connections + beside, spare = files > needed ? files - needed : 0;

    spare = spare > LEFT_PLACES_FEW ? spare : LEFT_PLACES_FEW;
    return spare < LEFT_PLACES ? spare : LEFT_PLACES;
}
