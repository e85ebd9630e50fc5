/* One-line records on stderr: time level tag text. The caller quotes values that could hold a
 * newline, with log_quote. Never log a secret, a token or a body. */
#pragma once

#include <stddef.h>

/* Set the tag of all lines; kept by reference. Before the first thread. */
void log_init(const char *tag);

#define log_error(...) log_line("error", __VA_ARGS__)
#define log_warn(...)  log_line("warn", __VA_ARGS__)
#define log_info(...)  log_line("info", __VA_ARGS__)

/* Write one line, cut at 2 KiB; errno is not kept. */
void log_line(const char *level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Make a peer's bytes safe for a log line: printable ASCII stays, the rest becomes \xNN. Returns
 * out. */
char *log_quote(const char *text, size_t len, char *out, size_t size);
