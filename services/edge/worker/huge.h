/* Huge pages for memory that workers share and look things up in at random. A page of 4 KiB that is
 * not in the processor's cache of addresses costs a walk of the page table, of a virtual machine
 * two within each other, before anything of it is read: with a table of many MiB that is more than
 * the look itself. No nginx in here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { HUGE_PAGE_BYTES = 2 * 1024 * 1024 }; /* of x86-64, and of arm64 with pages of 4 KiB */

/* The first byte from there on that begins a huge page. */
void *huge_align(void *memory);

/* Map the whole huge pages of that many bytes anew, as shared memory that is all zero, and have the
 * kernel make them such. begin is what huge_align returned; nothing of it is used yet, and no
 * process is forked that is to share it. Where the kernel has no huge pages to give, which is no
 * error, they are many small ones. False: it could not be mapped, and must not be touched. */
bool huge_map(void *begin, size_t bytes);
