#include "services/saml/reader.h"
#include "common/base/cleanup.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/bus/bus.h"
#include "common/codec/pack.h"
#include "common/codec/reading.h"
#include "services/saml/program.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ANSWER_MS = 4000, /* postern-xml kills a child after two seconds; longer, and it stands still */
    TICK_MS = 250,
    RESTART_MS = 1000,
    CHUNK = 64 << 10
};

typedef struct asked {
    reader_t *reader;
    void *job; /* NULL: a free place */
    int file;  /* where its answer comes from */
    char *bytes;
    size_t len;
    int64_t until_ms;
} asked_t;

struct reader {
    zloop_t *loop;
    const char *path;
    program_t program;
    int64_t restart_ms; /* not before */
    reader_answered_fn answered;
    void *context;
    asked_t places[READING_CHILDREN_MAX];
    int max, count, timer;
    struct {
        uint64_t asked, lost, starts;
    } metrics;
};

/* ---- the program ---- */

static int on_program(zloop_t *loop, zmq_pollitem_t *item, void *context);

static int start_program(reader_t *self)
{
    zmq_pollitem_t item = {.events = ZMQ_POLLIN};
    int r;

    self->restart_ms = bus_mono_ms() + RESTART_MS;
    r = program_start(&self->program, self->path);
    if (r)
        return r;
    self->metrics.starts++;
    item.fd = self->program.socket;
    zloop_poller(self->loop, &item, on_program, self);
    zloop_poller_set_tolerant(self->loop, &item);
    return 0;
}

static void end_program(reader_t *self)
{
    zmq_pollitem_t item = {.fd = self->program.socket, .events = ZMQ_POLLIN};

    if (!program_runs(&self->program))
        return;
    zloop_poller_end(self->loop, &item);
    program_end(&self->program);
}

/* It says nothing: its socket becomes readable when it has ended. */
static int on_program(zloop_t *loop, zmq_pollitem_t *item, void *context)
{
    reader_t *self = context;

    (void)loop;
    (void)item;
    log_error("postern-xml has ended: it is started again");
    end_program(self);
    return 0;
}

/* ---- answers ---- */

static void give_answer(asked_t *asked, const json_t *answer)
{
    reader_t *self = asked->reader;
    zmq_pollitem_t item = {.fd = asked->file, .events = ZMQ_POLLIN};
    void *job = take(asked->job);

    zloop_poller_end(self->loop, &item);
    fd_close(&asked->file);
    free(take(asked->bytes));
    self->count--;
    self->metrics.lost += !answer;
    self->answered(self->context, job, answer);
}

/* The bytes are all there: they are one answer, or none. */
static void finish(asked_t *asked)
{
    _cleanup_(json_clear_ref) json_t *answer = NULL;
    bool is_answer = asked->len && !unpack_json(asked->bytes, asked->len, &answer)
                     && json_is_integer(json_object_get(answer, "code"))
                     && json_is_string(json_object_get(answer, "msg"));

    give_answer(asked, is_answer ? answer : NULL);
}

static int on_answer(zloop_t *loop, zmq_pollitem_t *item, void *context)
{
    asked_t *asked = context;
    char *grown;
    ssize_t n;

    (void)loop;
    if (item->fd != asked->file || !asked->job)
        return 0;
    grown = asked->len <= READING_ANSWER_MAX ? realloc(asked->bytes, asked->len + CHUNK) : NULL;
    if (!grown) {
        give_answer(asked, NULL);
        return 0;
    }
    asked->bytes = grown;
    n = read(asked->file, asked->bytes + asked->len, CHUNK);
    if (n > 0)
        asked->len += (size_t)n;
    else if (n == 0)
        finish(asked);
    else if (errno != EAGAIN && errno != EINTR)
        give_answer(asked, NULL);
    return 0;
}

/* ---- questions ---- */

/* A file in memory, from whose beginning the child reads. -1: errno says why. */
static int question_file(const msgpack_sbuffer *question)
{
    int file = memfd_create("question", MFD_CLOEXEC);
    size_t done = 0;

    while (file >= 0 && done < question->size) {
        ssize_t n = pwrite(file, question->data + done, question->size - done, (off_t)done);

        if (n <= 0) {
            close(file);
            return -1;
        }
        done += (size_t)n;
    }
    return file;
}

static asked_t *free_place(reader_t *self)
{
    for (int i = 0; i < self->max; i++)
        if (!self->places[i].job)
            return &self->places[i];
    return NULL;
}

static void await_answer(reader_t *self, asked_t *place, int file, void *job)
{
    zmq_pollitem_t item = {.fd = file, .events = ZMQ_POLLIN};

    *place = (asked_t){self, job, file, NULL, 0, bus_mono_ms() + ANSWER_MS};
    self->count++;
    self->metrics.asked++;
    zloop_poller(self->loop, &item, on_answer, place);
    zloop_poller_set_tolerant(self->loop, &item);
}

int reader_ask(reader_t *self, const msgpack_sbuffer *question, void *job)
{
    asked_t *place = free_place(self);
    _cleanup_(fd_close) int file = -1;
    int ends[2], r;

    if (!place || !program_runs(&self->program))
        return fault(-EAGAIN, "ask postern-xml");
    if (question->size > READING_QUESTION_MAX)
        return fault(-EMSGSIZE, "ask postern-xml");
    file = question_file(question);
    if (file < 0 || pipe2(ends, O_CLOEXEC))
        return fault(-errno, "make files for a question");
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    r = program_pass(&self->program, file, ends[1]);
    close(ends[1]);
    if (r) {
        close(ends[0]);
        return r;
    }
    await_answer(self, place, ends[0], job);
    return 0;
}

/* ---- time ---- */

/* Who has no answer by now gets none. The program did not even kill the child: it is ended, and the
 * children end with it. */
static bool give_up_late(reader_t *self, int64_t now)
{
    bool is_late = false;

    for (int i = 0; i < self->max; i++)
        if (self->places[i].job && self->places[i].until_ms <= now) {
            give_answer(&self->places[i], NULL);
            is_late = true;
        }
    return is_late;
}

static int on_tick(zloop_t *loop, int timer, void *context)
{
    reader_t *self = context;
    int64_t now = bus_mono_ms();

    (void)loop;
    (void)timer;
    if (give_up_late(self, now) && program_runs(&self->program)) {
        log_error("postern-xml does not end its children in time: it is started again");
        end_program(self);
    }
    if (!program_runs(&self->program) && now >= self->restart_ms && start_program(self))
        log_error("cannot start postern-xml: %s", fault_text());
    return 0;
}

int reader_new(reader_t **ret_reader, zloop_t *loop, const char *program, int max,
               reader_answered_fn answered, void *context)
{
    reader_t *self = memory_new(sizeof(*self), "what postern-xml is asked");

    *ret_reader = self;
    self->loop = loop;
    self->path = program;
    self->program = PROGRAM_NONE;
    self->max = max < READING_CHILDREN_MAX ? max : READING_CHILDREN_MAX;
    self->answered = answered;
    self->context = context;
    self->timer = zloop_timer(loop, TICK_MS, 0, on_tick, self);
    return start_program(self);
}

void reader_destroy(reader_t **self_p)
{
    reader_t *self = take(*self_p);

    if (!self)
        return;
    zloop_timer_end(self->loop, self->timer);
    for (int i = 0; i < self->max; i++)
        if (self->places[i].job)
            give_answer(&self->places[i], NULL);
    end_program(self);
    free(self);
}

bool reader_has_room(const reader_t *self)
{
    return self->count < self->max && program_runs(&self->program);
}

bool reader_runs(const reader_t *self)
{
    return program_runs(&self->program);
}

size_t reader_metrics(const reader_t *self, char *out, size_t size)
{
    int n = snprintf(out, size,
                     "postern_saml_messages_read_total %" PRIu64 "\n"
                     "postern_saml_messages_lost_total %" PRIu64 "\n"
                     "postern_saml_messages_reading %d\n"
                     "postern_saml_reader_starts_total %" PRIu64 "\n",
                     self->metrics.asked, self->metrics.lost, self->count, self->metrics.starts);

    return (size_t)n < size ? (size_t)n : 0;
}
