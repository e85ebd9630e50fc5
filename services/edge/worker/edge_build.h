/* Which build of the module this is. */
#pragma once

/* The linker's build id of the module, in hexadecimal; empty: it has none. Stays. */
const char *edge_build_id(void);
