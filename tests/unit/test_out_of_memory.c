/* Small allocations of our own: zeroed, or the end of the process with a line that says what for.
 */
#include "common/base/memory.h"
#include "common/codec/pack.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

Test(out_of_memory, new_memory_is_zeroed)
{
    unsigned char *memory = memory_new(100, "a test");

    for (int i = 0; i < 100; i++)
        cr_assert_eq(memory[i], 0);
    free(memory);
}

Test(out_of_memory, a_copy_is_the_callers)
{
    char *copy = memory_copy("text", "a test");

    cr_assert_str_eq(copy, "text");
    free(copy);
}

Test(out_of_memory, a_null_pointer_ends_the_process, .signal = SIGABRT)
{
    memory_need(NULL, "a test");
}

Test(out_of_memory, what_is_large_is_not_asked_for_here, .signal = SIGABRT)
{
    free(memory_zeroed(MEMORY_SMALL + 1, "a test"));
}

Test(out_of_memory, json_works_under_the_guard)
{
    json_t *value;
    char *text;

    memory_guard_json();
    value = json_pack("{s:s, s:[i, i]}", "a", "b", "c", 1, 2);
    text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS);
    cr_assert_str_eq(text, "{\"a\":\"b\",\"c\":[1,2]}");
    free(text);
    json_decref(value);
}

/* ---- what somebody outside sends: as many small values as they like ---- */

enum { ZEROS = 1000000, ROOM_BYTES = 8 << 20 };

/* [0,0,...]: the caller frees it. */
static char *zeros_as_json(size_t *ret_len)
{
    char *text = malloc(2 * ZEROS + 1);

    for (size_t i = 0; i < ZEROS; i++)
        memcpy(text + 2 * i, i ? ",0" : "[0", 2);
    text[2 * ZEROS] = ']';
    *ret_len = 2 * ZEROS + 1;
    return text;
}

/* A sanitizer's own allocator reserves address space of terabytes. */
#if !defined(__SANITIZE_ADDRESS__)
/* From here on this process gets so many bytes more, and no others. */
static void leave_room(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    struct rlimit limit;

    cr_assert(file && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    limit.rlim_cur = limit.rlim_max = pages * (unsigned long)sysconf(_SC_PAGESIZE) + ROOM_BYTES;
    cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
}

Test(out_of_memory, a_body_of_json_is_refused_and_the_process_goes_on)
{
    size_t len;
    char *text = zeros_as_json(&len);
    json_t *value;

    memory_guard_json();
    leave_room();
    memory_json_begin_outside(SIZE_MAX);
    value = json_loadb(text, len, 0, NULL);
    cr_assert_eq(memory_json_end_outside(), -ENOMEM);
    cr_assert_null(value);
    memory_json_begin_outside(SIZE_MAX);
    value = json_loadb("[0,0]", 5, 0, NULL);
    cr_assert_eq(memory_json_end_outside(), 0, "each decoding counts for itself");
    cr_assert_eq(json_array_size(value), 2);
    json_decref(value);
    free(text);
}

Test(out_of_memory, a_frame_of_the_bus_is_refused_and_the_process_goes_on)
{
    unsigned char *frame = calloc(1, ZEROS + 5);
    json_t *value = NULL;

    memcpy(frame, "\xdd\x00\x0f\x42\x40", 5); /* an array of ZEROS items, each of them 0 */
    memory_guard_json();
    leave_room();
    cr_assert_eq(unpack_json(frame, ZEROS + 5, &value), -ENOMEM);
    cr_assert_null(value);
    cr_assert_eq(unpack_json("\x92\x00\x00", 3, &value), 0);
    json_decref(value);
    free(frame);
}
#endif

Test(out_of_memory, decodings_do_not_nest, .signal = SIGABRT)
{
    memory_json_begin_outside(1);
    memory_json_begin_outside(1);
}

Test(out_of_memory, a_body_of_many_values_is_refused_where_there_is_memory)
{
    size_t len;
    char *text = zeros_as_json(&len);

    memory_guard_json();
    memory_json_begin_outside(8 << 20);
    cr_assert_null(json_loadb(text, len, 0, NULL));
    cr_assert_eq(memory_json_end_outside(), -EMSGSIZE);
    free(text);
}

Test(out_of_memory, a_frame_of_many_values_is_refused_where_there_is_memory)
{
    unsigned char *frame = malloc(ZEROS + 5);
    json_t *value = NULL;

    memory_guard_json();
    memcpy(frame, "\xdd\x00\x0f\x42\x40", 5);
    memset(frame + 5, 0x80, ZEROS); /* empty maps: the most memory for a byte */
    cr_assert_eq(unpack_json(frame, ZEROS + 5, &value), -EMSGSIZE);
    cr_assert_null(value);
    free(frame);
}
