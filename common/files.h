/* How many files and connections the process may have open. */
#pragma once

/* Enough for a service whose sockets strangers may connect to: libzmq 4.3.4 aborts where a local one cannot accept. */
enum { FILES_SERVICE = 65536 };

/* Raise the limit to so many, or to what the system allows. */
void files_raise(unsigned long count);
