/* The edge's cache of sessions against a plain statement of what it promises: over histories of
 * chance, and with several workers of which some are killed in the middle of what they do. */
#include "services/edge/modules/sessions.h"
#include "common/base/cleanup.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1 << 20 };

static const unsigned char secret[SESSION_SECRET_BYTES] = "secret of a test";

static sessions_t *table_of(size_t bytes)
{
    void *memory = mmap(NULL, SESSIONS_HEAD_BYTES + bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sessions_t *self;

    cr_assert_neq(memory, MAP_FAILED);
    self = sessions_init(memory, bytes, secret);
    cr_assert_not_null(self);
    return self;
}

/* Numbers of chance that are the same in each run. */
static uint64_t chance(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15ull;
    uint64_t z = *state;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static void hash_of(unsigned number, unsigned char *out)
{
    uint64_t state = number * 1000003ull + 17;

    for (int i = 0; i < SESSION_HASH_BYTES / 8; i++) {
        uint64_t word = chance(&state);

        memcpy(out + i * 8, &word, 8);
    }
}

/* A session whose every part follows from its number and version, so that a mixture is seen. */
static session_t a_session(const sessions_t *self, unsigned number, unsigned version,
                           size_t group_bytes)
{
    char texts[5][64], groups[SESSION_TEXT_MAX];
    const char *all[SESSION_TEXTS] = {texts[0], texts[1], texts[2], texts[3], texts[4], groups};
    size_t lens[SESSION_TEXTS];
    session_t out = {0};

    hash_of(number, out.hash);
    memset(out.bound, (int)(number + version), sizeof(out.bound));
    out.expires_ms = 1000000 + number;
    out.due_ms = 2000000 + version;
    out.asked_ms = version;
    out.last_active_ms = 5000;
    out.inactivity_s = number * 7 + version;
    out.generation = sessions_generation(self, out.hash);
    for (int i = 0; i < SESSION_GROUPS; i++)
        lens[i] = (size_t)snprintf(texts[i], sizeof(texts[i]), "text%d_%u_%u", i, number, version);
    memset(groups, (int)('a' + (number + version) % 26), group_bytes);
    lens[SESSION_GROUPS] = group_bytes;
    cr_assert(session_set_texts(&out, all, lens));
    return out;
}

/* Is it, in all its parts, the session of that number, in whichever version? */
static bool is_whole(const session_t *found, unsigned number)
{
    unsigned version = (unsigned)found->asked_ms;
    char want[64];
    size_t len;
    const char *text;

    if (found->expires_ms != 1000000 + number || found->due_ms != 2000000 + version
        || found->inactivity_s != number * 7 + version)
        return false;
    for (int i = 0; i < SESSION_GROUPS; i++) {
        int n = snprintf(want, sizeof(want), "text%d_%u_%u", i, number, version);

        text = session_text(found, (session_text_t)i, &len);
        if (len != (size_t)n || memcmp(text, want, len) != 0)
            return false;
    }
    text = session_text(found, SESSION_GROUPS, &len);
    for (size_t i = 0; i < len; i++)
        if (text[i] != (char)('a' + (number + version) % 26))
            return false;
    return true;
}

static bool find(const sessions_t *self, unsigned number, session_t *out)
{
    unsigned char hash[SESSION_HASH_BYTES];

    hash_of(number, hash);
    sessions_expect(self, hash);
    return sessions_find(self, hash, out);
}

Test(sessions, finds_what_was_put)
{
    sessions_t *self = table_of(BYTES);
    session_t session = a_session(self, 1, 1, 0), found;

    cr_assert_not(find(self, 1, &found));
    cr_assert(sessions_put(self, &session));
    cr_assert(find(self, 1, &found));
    cr_assert(is_whole(&found, 1));
    cr_assert_eq(found.last_active_ms, 5000);
    cr_assert_not(find(self, 2, &found));
    cr_assert_eq(sessions_count(self), 1);
}

Test(sessions, replaces_its_own_place)
{
    sessions_t *self = table_of(BYTES);
    session_t found;

    for (unsigned version = 0; version < 20; version++) {
        session_t session = a_session(self, 1, version, version * 97 % 700);

        cr_assert(sessions_put(self, &session));
        cr_assert(find(self, 1, &found));
        cr_assert(is_whole(&found, 1));
        cr_assert_eq(found.asked_ms, version);
    }
    cr_assert_leq(sessions_count(self), 4);
}

/* Whatever byte of the table is another: of three cells all are sealed but two words. */
Test(sessions, finds_nothing_that_is_not_as_it_was_put)
{
    enum { SMALL = 64 * 1024, CELLS = 3 };
    sessions_t *self = table_of(SMALL);
    session_t session = a_session(self, 1, 1, CELLS * SESSION_CELL_BYTES - SESSION_HEAD_BYTES - 60);
    unsigned char *bytes = (unsigned char *)self + SESSIONS_HEAD_BYTES;
    unsigned hidden = 0;
    session_t found;

    cr_assert(sessions_put(self, &session));
    for (size_t i = 0; i < SMALL; i++) {
        bytes[i] ^= 0x10;
        if (!find(self, 1, &found))
            hidden++;
        else
            cr_assert(is_whole(&found, 1), "byte %zu", i);
        bytes[i] ^= 0x10;
    }
    cr_assert_geq(hidden, CELLS * SESSION_CELL_BYTES - 16);
    cr_assert(find(self, 1, &found));
}

Test(sessions, takes_256_bytes_for_ordinary_names)
{
    size_t bytes = 32 << 20;
    sessions_t *self = table_of(bytes);
    const char *texts[SESSION_TEXTS] = {"usr_2VsQ8z1GkQ9c0mB7hT5dJwLfXyZ", "108234567890123456789",
                                        "Wilhelmina Featherstonehaugh",
                                        "wilhelmina.featherston@example.com"};
    size_t lens[SESSION_TEXTS] = {31, 21, 28, 34};
    session_t session = {0};

    hash_of(1, session.hash);
    cr_assert(session_set_texts(&session, texts, lens));
    cr_assert(sessions_put(self, &session));
    cr_assert_eq(sessions_count(self), 1, "one cell");
    cr_assert_leq((double)bytes / (double)sessions_places(self), 256.0);
}

Test(sessions, keeps_long_texts_up_to_their_bound)
{
    sessions_t *self = table_of(BYTES);
    session_t found;
    size_t others;

    for (unsigned i = 0; i < 4; i++) {
        session_t session = a_session(self, i, 1, 0);

        others = 0;
        for (int which = 0; which < SESSION_GROUPS; which++)
            others += session.lens[which];
        session = a_session(self, i, 1, SESSION_TEXT_MAX - others);
        cr_assert(sessions_put(self, &session));
        cr_assert(find(self, i, &found));
        cr_assert(is_whole(&found, i));
    }
    const char *texts[] = {"", "", "", "", "", ""};
    size_t lens[SESSION_TEXTS] = {SESSION_TEXT_MAX, 1};
    char *large = calloc(1, SESSION_TEXT_MAX);

    texts[0] = large;
    texts[1] = "x";
    cr_assert_not(session_set_texts(&found, texts, lens));
    free(large);
}

Test(sessions, finds_nothing_that_ended)
{
    sessions_t *self = table_of(BYTES);
    session_t session = a_session(self, 1, 1, 0), found;

    cr_assert(sessions_put(self, &session));
    sessions_end(self, session.hash);
    cr_assert_not(find(self, 1, &found));
}

/* Identity was asked before the session ended, and the answer comes after it. */
Test(sessions, keeps_no_answer_to_what_was_asked_before_the_end)
{
    sessions_t *self = table_of(BYTES);
    session_t session = a_session(self, 1, 1, 0), found;

    sessions_end(self, session.hash);
    cr_assert_not(sessions_put(self, &session));
    cr_assert_not(find(self, 1, &found));
    session = a_session(self, 1, 2, 0); /* asked since */
    cr_assert(sessions_put(self, &session));
    cr_assert(find(self, 1, &found));
}

Test(sessions, says_once_in_a_while_that_a_session_is_active)
{
    sessions_t *self = table_of(BYTES);
    session_t session = a_session(self, 1, 1, 0), found;

    sessions_put(self, &session);
    cr_assert(find(self, 1, &found));
    cr_assert_not(sessions_touch(self, &found, 6000, 10000));
    cr_assert_not(sessions_touch(self, &found, 14999, 10000));
    cr_assert(sessions_touch(self, &found, 15000, 10000));
    cr_assert_not(sessions_touch(self, &found, 15001, 10000));
    cr_assert_not(sessions_touch(self, &found, 14000, 10000), "time does not go back");
    cr_assert(find(self, 1, &found));
    cr_assert_eq(found.last_active_ms, 15001);
    session = a_session(self, 1, 2, 300); /* another answer, which knows an earlier time */
    sessions_put(self, &session);
    cr_assert(find(self, 1, &found));
    cr_assert_eq(found.last_active_ms, 15001);
}

Test(sessions, no_touch_reaches_another_session)
{
    sessions_t *self = table_of(64 * 1024);
    session_t first = a_session(self, 1, 1, 0), found, now;

    sessions_put(self, &first);
    cr_assert(find(self, 1, &found));
    for (unsigned i = 2; i < 5000; i++) { /* others take all places */
        session_t session = a_session(self, i, 1, 0);

        session.last_active_ms = 6000;
        sessions_put(self, &session);
    }
    cr_assert_not(find(self, 1, &now), "it was idle for longest");
    sessions_touch(self, &found, 999999, 1);
    for (unsigned i = 2; i < 5000; i++)
        if (find(self, i, &now))
            cr_assert_eq(now.last_active_ms, 6000);
}

Test(sessions, forgets_who_was_idle_for_longest)
{
    sessions_t *self = table_of(BYTES);
    unsigned places = (unsigned)sessions_places(self), kept = 0;
    session_t found;

    for (unsigned i = 0; i < 2 * places; i++) {
        session_t session = a_session(self, i, 1, 0);

        session.last_active_ms = 10000 + i;
        cr_assert(sessions_put(self, &session));
        cr_assert(find(self, i, &found), "the newest is always there");
    }
    cr_assert_leq(sessions_count(self), places);
    for (unsigned i = 2 * places - places / 2; i < 2 * places; i++)
        kept += find(self, i, &found);
    cr_assert_gt(kept, places / 2 * 95 / 100, "%u of %u", kept, places / 2);
}

/* Nine tenths of its places are used before anybody loses one. */
Test(sessions, has_room_for_nearly_as_many_as_it_has_places)
{
    sessions_t *self = table_of(16 << 20);
    unsigned many = (unsigned)(sessions_places(self) * 9 / 10), kept = 0;
    session_t found;

    for (unsigned i = 0; i < many; i++) {
        session_t session = a_session(self, i, 1, 0);

        sessions_put(self, &session);
    }
    for (unsigned i = 0; i < many; i++)
        kept += find(self, i, &found);
    cr_assert_geq(kept, many - many / 1000, "%u of %u", kept, many);
}

/* A session of so many cells whose two sets are both the first one, where it is looked for first at
 * that place. */
static session_t of_first_set(const sessions_t *self, unsigned number, size_t way, size_t cells)
{
    size_t others = 0;
    session_t out = a_session(self, number, 1, 0);
    uint64_t set = 0, place = way;

    for (int which = 0; which < SESSION_GROUPS; which++)
        others += out.lens[which];
    if (cells > 1)
        out = a_session(self, number, 1, cells * SESSION_CELL_BYTES - SESSION_HEAD_BYTES - others);
    memcpy(out.hash + 8, &set, sizeof(set));
    memcpy(out.hash + 24, &place, sizeof(place));
    out.generation = sessions_generation(self, out.hash);
    return out;
}

static bool is_found(const sessions_t *self, const session_t *session)
{
    session_t found = {0};

    return sessions_find(self, session->hash, &found)
           && !memcmp(found.text, session->text, sizeof(found.text));
}

static void put_all(sessions_t *self, const session_t *all, size_t count)
{
    for (size_t i = 0; i < count; i++)
        cr_assert(sessions_put(self, &all[i]));
}

static size_t count_found(const sessions_t *self, const session_t *all, size_t count)
{
    size_t found = 0;

    for (size_t i = 0; i < count; i++)
        found += is_found(self, &all[i]);
    return found;
}

enum { WAYS = 16 /* cells of a set */ };

/* Those of one cell lie at every other place, so that no two that are free are side by side. */
Test(sessions, one_of_many_cells_takes_nobodys_place_while_as_many_are_free)
{
    sessions_t *self = table_of(BYTES);
    session_t all[WAYS / 2 + 1];

    for (unsigned i = 0; i < WAYS / 2; i++)
        all[i] = of_first_set(self, i, (size_t)i * 2, 1);
    all[WAYS / 2] = of_first_set(self, WAYS / 2, 0, WAYS / 2);
    put_all(self, all, LEN(all));
    cr_assert_eq(sessions_count(self), WAYS);
    cr_assert_eq(count_found(self, all, LEN(all)), LEN(all));
}

Test(sessions, one_that_grows_takes_nobodys_place_beyond_what_it_lacks)
{
    enum { SINGLE = 11, FEW = 4 };
    sessions_t *self = table_of(BYTES);
    session_t all[SINGLE + 1];

    for (unsigned i = 0; i < SINGLE; i++)
        all[i] = of_first_set(self, i, i, 1);
    all[SINGLE] = of_first_set(self, SINGLE, 7, FEW);
    put_all(self, all, LEN(all));
    for (size_t cells = FEW + 1; cells <= FEW + 2; cells++) {
        all[SINGLE] = of_first_set(self, SINGLE, 7, cells);
        put_all(self, &all[SINGLE], 1);
        cr_assert(is_found(self, &all[SINGLE]));
        cr_assert_eq(sessions_count(self), WAYS);
        cr_assert_eq(count_found(self, all, SINGLE), cells == FEW + 1 ? SINGLE : SINGLE - 1);
    }
}

/* Only as many as are needed, and those that were idle for longest. */
Test(sessions, one_of_many_cells_takes_the_places_of_whoever_was_idle_for_longest)
{
    enum { CELLS = 5 };
    sessions_t *self = table_of(BYTES);
    session_t all[WAYS + 1];

    for (unsigned i = 0; i < WAYS; i++) {
        all[i] = of_first_set(self, i, i, 1);
        all[i].last_active_ms = 6000 + i * 7 % WAYS; /* in no order of places */
    }
    all[WAYS] = of_first_set(self, WAYS, 3, CELLS);
    all[WAYS].last_active_ms = 9000;
    put_all(self, all, LEN(all));
    for (unsigned i = 0; i < WAYS; i++)
        cr_assert_eq(is_found(self, &all[i]), all[i].last_active_ms >= 6000 + CELLS, "%u", i);
    cr_assert(is_found(self, &all[WAYS]));
}

/* ---- histories ---- */

enum { SOME = 60, STEPS = 200000 };

Test(sessions, says_what_a_plain_list_says)
{
    sessions_t *self = table_of(BYTES);
    struct {
        bool there;
        unsigned version;
    } model[SOME] = {{0}};
    uint64_t state = 42;

    for (unsigned step = 1; step <= STEPS; step++) {
        unsigned number = (unsigned)(chance(&state) % SOME);
        session_t session, found;

        switch (chance(&state) % 4) {
        case 0:
            session = a_session(self, number, step, chance(&state) % 5 ? 0 : chance(&state) % 300);
            cr_assert(sessions_put(self, &session));
            model[number].there = true;
            model[number].version = step;
            break;
        case 1:
            session = a_session(self, number, 0, 0);
            sessions_end(self, session.hash);
            model[number].there = false;
            break;
        default:
            if (find(self, number, &found)) {
                cr_assert(model[number].there);
                cr_assert(is_whole(&found, number));
                cr_assert_eq(found.asked_ms, model[number].version);
            }
        }
    }
}

/* ---- many workers, of which some die ---- */

enum { WORKERS = 4, CROWD = 400, KILLS = 150 };

typedef struct {
    _Atomic uint32_t ended[CROWD]; /* by its database: before the table is told */
    _Atomic uint32_t told[CROWD];  /* sessions_end has returned */
    _Atomic uint64_t wrong, found;
    sessions_t *table;
} crowd_t;

/* What a worker does, for ever: asks the database, is slow to write what it said, and looks. */
static void work(crowd_t *all, uint64_t state)
{
    for (unsigned step = 1;; step++) {
        unsigned number = (unsigned)(chance(&state) % CROWD);
        bool told = atomic_load(&all->told[number]);
        session_t session, found;

        switch (chance(&state) % 8) {
        case 0:
        case 1:
            session = a_session(all->table, number, step % 1000, chance(&state) % 3 ? 0 : 400);
            if (atomic_load(&all->ended[number]))
                break;
            if (chance(&state) % 16 == 0)
                sched_yield();
            sessions_put(all->table, &session);
            break;
        case 2:
            if (number % 8 || chance(&state) % 64)
                break;
            session = a_session(all->table, number, 0, 0);
            atomic_store(&all->ended[number], 1);
            sessions_end(all->table, session.hash);
            atomic_store(&all->told[number], 1);
            break;
        default:
            if (!find(all->table, number, &found))
                break;
            atomic_fetch_add(&all->found, 1);
            if (told || !is_whole(&found, number))
                atomic_fetch_add(&all->wrong, 1);
            sessions_touch(all->table, &found, 6000 + step % 1000, 100);
        }
    }
}

static pid_t begin_worker(crowd_t *all, uint64_t seed)
{
    pid_t pid = fork();

    if (pid == 0) {
        work(all, seed);
        _exit(0);
    }
    cr_assert_gt(pid, 0);
    return pid;
}

Test(sessions, nobody_finds_a_mixture_nor_what_ended_however_workers_die, .timeout = 120)
{
    crowd_t *all =
        mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t workers[WORKERS];
    uint64_t state = 7;

    cr_assert_neq(all, MAP_FAILED);
    all->table = table_of(64 * 1024); /* fewer places than sessions */
    for (unsigned i = 0; i < WORKERS; i++)
        workers[i] = begin_worker(all, i + 1);
    for (unsigned i = 0; i < KILLS; i++) {
        unsigned one = (unsigned)(chance(&state) % WORKERS);

        usleep(4000 + chance(&state) % 4000);
        kill(workers[one], SIGKILL);
        waitpid(workers[one], NULL, 0);
        workers[one] = begin_worker(all, 1000 + i);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        kill(workers[i], SIGKILL);
        waitpid(workers[i], NULL, 0);
    }
    cr_assert_gt(atomic_load(&all->found), 0);
    cr_assert_eq(atomic_load(&all->wrong), 0);
}
