# Postern. `make help` lists what there is.
CC       ?= gcc
CXX      ?= g++
BUILD    ?= build
SAN      ?=
Q        := $(if $(V),,@)
WARN     := -Wall -Wextra -Werror -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes -Wno-unknown-warning-option -Wno-format-truncation
LIBS     := libpq jansson libczmq libzmq libmicrohttpd libsodium openssl re2 yaml-0.1
MSGPACK  := $(shell pkg-config --exists msgpack-c && echo msgpack-c || echo msgpack)
LDMSG    := $(shell pkg-config --exists msgpack-c && echo -lmsgpack-c || echo -lmsgpackc)
CPPFLAGS += -I. -D_GNU_SOURCE $(shell pkg-config --cflags $(LIBS) $(MSGPACK) 2>/dev/null)
CFLAGS   ?= -O2 -g
CFLAGS   += -std=gnu17 -fno-common -fstack-protector-strong $(WARN) $(SAN)
CXXFLAGS += -std=c++17 -O2 -g -Wall -Wextra -Werror $(SAN)
LDLIBS   := $(shell pkg-config --libs $(LIBS) 2>/dev/null) $(LDMSG) -lm
LDFLAGS  += -Wl,-z,relro,-z,now $(SAN)

SHARED   := $(wildcard common/*.c proto/*.c)
SERVICES := gateway routes identity events
PROGRAMS := $(SERVICES:%=$(BUILD)/bin/postern-%) $(BUILD)/bin/postern
OBJ       = $(patsubst %,$(BUILD)/obj/%.o,$(1))
COMMON_OBJ := $(call OBJ,$(SHARED) common/regex.cc)

.PHONY: all help deps programs edge run up down test check asan e2e fuzz lint format bench test-fresh chaos compose clean
.SECONDARY:

all: programs edge

help:
	@echo "run         install, build and start everything in the foreground (Ctrl-C stops it)"
	@echo "up, down    the same in the background; up writes var/postern.env"
	@echo "test        install what tests need, then run all of them"
	@echo "bench       the edge against bare nginx, same run"
	@echo "all         build into $(BUILD)/"
	@echo "check asan  unit and store tests; the same under ASan and UBSan"
	@echo "e2e         stories against a running system, with the official client"
	@echo "fuzz        replay seeds, then FUZZ_SECONDS=60 of fuzzing for each parser"
	@echo "lint format clang-format and clang-tidy; format rewrites"
	@echo "test-fresh  make run and make test in clean Debian roots"

deps:
	@deploy/install-packages

programs: $(PROGRAMS)

$(BUILD)/obj/%.c.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/obj/%.cc.o: %.cc
	@mkdir -p $(@D)
	$(Q)$(CXX) $(CPPFLAGS) $(CXXFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/libpostern.a: $(COMMON_OBJ)
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

define PROGRAM
$(BUILD)/bin/$(1): $(call OBJ,$(wildcard services/$(2)/*.c)) $(BUILD)/libpostern.a
	@mkdir -p $$(@D)
	$(Q)$(CXX) $(LDFLAGS) $$^ $(LDLIBS) -o $$@
endef
$(foreach s,$(SERVICES),$(eval $(call PROGRAM,postern-$(s),$(s))))
$(eval $(call PROGRAM,postern,cli))

# Embedded files are prerequisites of the objects that embed them.
$(BUILD)/obj/services/routes/main.c.o: common/schema.sql common/config_log.sql $(wildcard services/routes/migrations/*.sql)
$(BUILD)/obj/services/identity/main.c.o: common/schema.sql $(wildcard services/identity/migrations/*.sql)
$(BUILD)/obj/services/events/main.c.o: $(wildcard services/events/migrations/*.sql)
$(BUILD)/obj/proto/schema.c.o $(BUILD)/obj/proto/format.c.o: $(wildcard proto/*.def)

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)

# ---- the edge: nginx's own build, with Debian's flags ----
EDGE_SRC := $(wildcard services/edge/*.[ch]) services/edge/config common/id.c common/path.c common/pack.c
EDGE_SO  := $(BUILD)/edge/ngx_http_postern_module.so

edge: $(EDGE_SO)

$(EDGE_SO): $(EDGE_SRC)
	$(Q)POSTERN_MSGPACK_LIB=$(LDMSG) deploy/build-edge $(abspath $(BUILD)/edge) $(if $(SAN),"$(SAN)")

# ---- running ----

run: deps
	@$(MAKE) --no-print-directory all
	@exec deploy/stack run

up: deps
	@$(MAKE) --no-print-directory all
	@deploy/stack up

down:
	@deploy/stack down

clean:
	rm -rf $(BUILD)
