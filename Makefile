# Postern. `make help` lists what there is.
CC       ?= gcc
CXX      ?= g++
BUILD    ?= build
SAN      ?=
Q        := $(if $(V),,@)
WARN     := -Wall -Wextra -Werror -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes -Wno-unknown-warning-option -Wno-format-truncation
LIBS     := libpq jansson libczmq libzmq libmicrohttpd libsodium openssl re2 yaml-0.1
# Only the program that reads SAML messages loads these, and tests of it.
XML_LIBS := xmlsec1-openssl libxml-2.0
MSGPACK  := $(shell pkg-config --exists msgpack-c && echo msgpack-c || echo msgpack)
LDMSG    := $(shell pkg-config --exists msgpack-c && echo -lmsgpack-c || echo -lmsgpackc)
PKGFLAGS := $(shell pkg-config --cflags $(LIBS) $(XML_LIBS) $(MSGPACK) 2>/dev/null)
CPPFLAGS += -I. -I$(BUILD)/gen -D_GNU_SOURCE $(PKGFLAGS)
# override: what the command line says of optimization is not instead of these, least of all of the sanitizers
CFLAGS   ?= -O2 -g
override CFLAGS += -std=gnu17 -fno-common -fstack-protector-strong $(WARN) $(SAN)
CXXFLAGS ?= -O2 -g
override CXXFLAGS += -std=c++17 -Wall -Wextra -Werror $(SAN)
# Only programs that make requests of their own load libcurl, and only tests of the edge's files zlib, brotli and zstd.
LDLIBS   := $(shell pkg-config --libs $(LIBS) 2>/dev/null) $(LDMSG) -lm -Wl,--push-state,--as-needed -lcurl -lz -lbrotlienc -lbrotlidec -lzstd $(shell pkg-config --libs $(XML_LIBS) 2>/dev/null) -Wl,--pop-state
# What one thread allocates another frees, for every message: jemalloc does that without a lock. Sanitizers bring their own.
MALLOC   := $(if $(SAN),,-ljemalloc)
LDFLAGS  += -Wl,-z,relro,-z,now $(SAN)

SHARED   := $(wildcard common/*/*.c)
SERVICES := $(shell deploy/services)
MIGRATED := $(patsubst services/%/migrations,%,$(wildcard services/*/migrations))
PROGRAMS := $(SERVICES:%=$(BUILD)/bin/postern-%) $(BUILD)/bin/postern-fetch $(BUILD)/bin/postern-xml $(BUILD)/bin/postern
OBJ       = $(patsubst %,$(BUILD)/obj/%.o,$(1))
COMMON_OBJ := $(call OBJ,$(SHARED) $(wildcard common/*/*.cc))

.PHONY: all help deps programs edge run up down test check asan asan-programs e2e networks suspend recipes roles contract clients chaos model tenants hostile growth revocations mutants lasso fuzz fuzz-library lint house format clang node-packages bench test-fresh compose clean
.SECONDARY:

all: programs edge

help:
	@echo "run         install, build and start everything in the foreground (Ctrl-C stops it)"
	@echo "up, down    the same in the background; up writes var/postern.env"
	@echo "test        install what tests need, then run all of them; ALSO=\"test-fresh compose\" those, too"
	@echo "bench       the edge against nginx, HAProxy and Caddy, the API against PostgreSQL, same run"
	@echo "all         build into $(BUILD)/"
	@echo "check asan  unit and store tests; the same under ASan and UBSan"
	@echo "e2e         stories against a running system, with the official client"
	@echo "fuzz        replay seeds, then FUZZ_SECONDS=30 of fuzzing for each parser"
	@echo "lint format clang-format, clang-tidy and what follows from tables in files that are committed; format rewrites"
	@echo "house       figures of the code, a room a row; HOUSE_BEFORE=checkout puts those of another beside them"
	@echo "roles       every role of the bus against every verb, socket and name of a running system"
	@echo "contract    100,000 generated requests against the tables they come from"
	@echo "recipes     what CONTRIBUTING.md tells to do, done in a scratch copy, built and tried"
	@echo "clients     every method of the official clients: TypeScript, Python, Go and Java, and Terraform's provider"
	@echo "model       MODEL_CHANGES=1500 random changes against a reference of the edge; MODEL_SEED repeats a run"
	@echo "tenants     TENANTS_ROUNDS=1 of all that one account can try on another's; TENANTS_SEED repeats a run"
	@echo "hostile     HOSTILE_REQUESTS=50000 requests and answers that nobody would write; HOSTILE_SEED repeats a run"
	@echo "networks    NETWORKS_CHECKS=100000 addresses in networks, as Python's ipaddress sees them; what one costs"
	@echo "suspend     10,000 requests at once that wait in a route module, and every way in which such a request ends"
	@echo "revocations REVOCATIONS=10000 of CLIENTS=1000 over POSTERN_EDGE_WORKERS=4: no request that begins after the answer is admitted"
	@echo "mutants     edges that break a promise on purpose, which its story has to find out"
	@echo "growth      GROWTH_OBJECTS=3000 objects made and deleted, GROWTH_CHANGES=100000 of modules, GROWTH_RESTARTS=8 of the edge: nothing stays behind"
	@echo "chaos       kills, cuts, and 10,000 changes each requested at once"
	@echo "test-fresh  make run and a served request in clean Debian roots"
	@echo "compose     the containers as a story"

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
$(BUILD)/bin/$(1): $(call OBJ,$(wildcard services/$(2)/*.c)) $(if $(filter $(2),$(MIGRATED)),$(BUILD)/obj/services/$(2)/migrations.c.o) $(BUILD)/libpostern.a
	@mkdir -p $$(@D)
	$(Q)$(CXX) $(LDFLAGS) $$^ $(MALLOC) $(LDLIBS) -o $$@
endef
$(foreach s,$(SERVICES),$(eval $(call PROGRAM,postern-$(s),$(s))))
$(eval $(call PROGRAM,postern-fetch,fetch))
$(eval $(call PROGRAM,postern-xml,xml))
$(eval $(call PROGRAM,postern,cli))

# A service's migrations, from the files that there are; the folder is a prerequisite because one may be taken away.
define MIGRATIONS
$(BUILD)/gen/services/$(1)/migrations.c: deploy/embed-migrations services/$(1)/migrations $(wildcard services/$(1)/migrations/*)
	@mkdir -p $$(@D)
	$(Q)deploy/embed-migrations $(1) >$$@.new && mv $$@.new $$@
$(BUILD)/obj/services/$(1)/migrations.c.o: $(BUILD)/gen/services/$(1)/migrations.c $(wildcard common/resource/*.sql services/$(1)/migrations/*.sql)
	@mkdir -p $$(@D)
	$(Q)$$(CC) $$(CPPFLAGS) $$(CFLAGS) -MMD -MP -c $$< -o $$@
endef
$(foreach s,$(MIGRATED),$(eval $(call MIGRATIONS,$(s))))

# Embedded files are prerequisites of the objects that embed them.
$(BUILD)/obj/services/gateway/docs.c.o: $(wildcard services/gateway/docs/*)

# The kinds, from the files that there are.
$(BUILD)/gen/kinds.inc: deploy/list-kinds proto/kinds $(wildcard proto/kinds/*)
	@mkdir -p $(@D)
	$(Q)deploy/list-kinds >$@.new && mv $@.new $@
$(BUILD)/obj/common/schema/tables.c.o $(BUILD)/obj/tests/roles/roles.c.o: $(BUILD)/gen/kinds.inc $(wildcard proto/*.def proto/kinds/*.def)
$(BUILD)/obj/common/schema/format.c.o $(BUILD)/obj/common/codec/webhook.c.o: $(wildcard proto/*.def)

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)

# ---- the edge: nginx's own build, with Debian's flags ----
EDGE_SRC := $(wildcard services/edge/*.[ch] services/edge/*/*.[ch] common/*/*.h proto/*.def) services/edge/config common/base/address.c common/base/authorities.c common/base/id.c common/base/portion_rule.c common/base/private_key.c common/codec/path.c common/codec/pack_check.c common/codec/regex.cc common/codec/signer.c common/codec/token.c common/codec/webhook.c deploy/build-edge
EDGE_SO  := $(BUILD)/edge/ngx_http_postern_module.so

edge: $(EDGE_SO)

$(EDGE_SO): $(EDGE_SRC)
	$(Q)POSTERN_MSGPACK_LIB=$(LDMSG) deploy/build-edge $(abspath $(BUILD)/edge) $(if $(SAN),"$(SAN)")

# ---- running ----

# As many jobs as processors, where nobody said how many.
JOBS = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))

run: deps
	@$(MAKE) --no-print-directory $(JOBS) all
	@exec deploy/stack run

up: deps
	@$(MAKE) --no-print-directory $(JOBS) all
	@deploy/stack up

down:
	@deploy/stack down

clean:
	rm -rf $(BUILD)

# ---- tests ----
UNIT_SRC  := $(wildcard tests/unit/*.c)
# What a child of postern-xml does with a message, without the process.
XML_SRC   := $(filter-out services/xml/main.c services/xml/sandbox.c,$(wildcard services/xml/*.c))
# The edge's files without nginx: those that do not have its prefixes.
EDGE_PURE := $(foreach f,$(wildcard services/edge/*/*.[ch]),$(if $(filter edge_% module_%,$(notdir $f)),,$f))
UNIT_OBJ   = $(call OBJ,$(UNIT_SRC) $(filter %.c,$(EDGE_PURE)) services/cli/gaps.c services/cli/health.c services/cli/keys.c services/events/batch.c services/events/feed.c services/events/layout.c services/events/listeners.c services/events/memory.c services/events/pending.c services/events/put_off.c services/events/sequence.c services/events/topics.c services/fetch/certificate.c services/gateway/admission.c services/gateway/body.c services/gateway/document.c services/gateway/documents.c services/gateway/framing.c services/gateway/owners.c services/gateway/paths.c services/gateway/rate.c $(addprefix services/identity/,gone_turns.c key_waits.c person.c rules_newest.c rules_restored.c session.c session_provider.c session_tokens.c sign_in_run.c sign_in_sealed.c sign_in_state.c sign_in_words.c user_jwt.c) $(wildcard services/identity/oauth*.c) services/identity/rules.c services/routes/oauth_application.c services/routes/ready_keys.c services/routes/saml_keys.c services/routes/sign_in_module.c services/routes/x509.c services/identity/browser.c $(XML_SRC))
# The engine of OpenID Connect, which is pure.
OIDC_SRC  := $(wildcard services/identity/oidc*.c) $(wildcard services/identity/provider_*.c) services/identity/person.c
UNIT_OBJ  += $(call OBJ,$(OIDC_SRC))
# That of SAML, which is pure, too.
SAML_SRC  := $(wildcard services/identity/saml*.c)
UNIT_OBJ  += $(call OBJ,$(SAML_SRC))
# A sanitizer that is only linked looks at little more than the heap: what was compiled has to call for it.
INSTRUMENTED = for symbol in $(2); do nm $(1)/libpostern.a | grep -q "U $$symbol" || { echo "error: $(1)/libpostern.a is not compiled with $$symbol" >&2; exit 1; }; done
SANITIZE  := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
FUZZERS   := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_SECONDS ?= 30

$(BUILD)/bin-test/unit: $(UNIT_OBJ) $(BUILD)/libpostern.a
	@mkdir -p $(@D)
	$(Q)$(CXX) $(LDFLAGS) $^ $(LDLIBS) -lcriterion -Wl,--export-dynamic-symbol="mbedtls_x509_crt_parse_*" -o $@

# Criterion's own macros do not declare what they define, and tests build strings freely.
$(BUILD)/obj/tests/%.c.o: override CFLAGS += -Wno-missing-prototypes -Wno-stringop-truncation

check: $(BUILD)/bin-test/unit
	@tests/unit/run $(BUILD)/bin-test/unit -j2 --short-filename

asan:
	@$(MAKE) --no-print-directory check BUILD=build/asan CFLAGS="-O1 -g" SAN="$(SANITIZE)" CXXFLAGS="-O1 -g"
	@$(call INSTRUMENTED,build/asan,__asan_report_load __ubsan_handle)

# The whole product under ASan and UBSan: what the end-to-end stories run against.
asan-programs:
	@$(MAKE) --no-print-directory programs edge BUILD=build/asan CFLAGS="-O1 -g" SAN="$(SANITIZE)" CXXFLAGS="-O1 -g"
	@$(call INSTRUMENTED,build/asan,__asan_report_load __ubsan_handle)

FUZZ_SAN := address,undefined
# Parsers that are a service's own.
FUZZED_OBJ := $(patsubst %,build/fuzz/lib/obj/%.o,services/cli/gaps.c services/edge/http/authority.c services/edge/control/ask_packet.c services/edge/control/ask_reply.c services/edge/worker/follow.c services/edge/http/forwarded.c services/edge/control/frames.c services/edge/http/h2.c services/edge/http/head.c services/edge/http/params.c services/edge/http/proxy_header.c services/edge/http/trace.c services/edge/modules/bearer.c services/edge/modules/codings.c services/edge/modules/sign_in_rules.c services/edge/modules/websocket.c services/edge/control/merge.c services/edge/control/parts.c services/edge/control/record.c services/edge/tls/tickets.c services/events/batch.c services/events/layout.c services/events/sequence.c services/events/topics.c services/fetch/certificate.c services/gateway/framing.c services/gateway/paths.c services/identity/ssh.c $(wildcard services/identity/oauth*.c) services/identity/rules.c services/routes/x509.c services/edge/control/session_entries.c)
FUZZED_OBJ += $(OIDC_SRC:%=build/fuzz/lib/obj/%.o)
FUZZED_OBJ += $(SAML_SRC:%=build/fuzz/lib/obj/%.o)
FUZZED_OBJ += $(patsubst %,build/fuzz/lib/obj/%.o,services/identity/sign_in_state.c services/identity/sign_in_words.c)
# The edge's table needs what only its own fuzzer has: the modules.
FUZZED_TABLE := $(patsubst %,build/fuzz/lib/obj/%.o,$(wildcard services/edge/table/*.c) services/edge/http/portion.c)
FUZZED_AGENTS := $(patsubst %,build/fuzz/lib/obj/%.o,services/edge/modules/agents.c $(addprefix services/edge/table/,document.c slab.c strmap.c))
FUZZED_COOKIES := $(patsubst %,build/fuzz/lib/obj/%.o,services/edge/http/cookies.c $(addprefix services/edge/table/,cookie_names.c slab.c strmap.c))
FUZZED_XML := $(patsubst %,build/fuzz/lib/obj/%.o,$(XML_SRC))
FUZZED_WEBHOOK := $(patsubst %,build/fuzz/lib/obj/%.o,$(wildcard services/edge/modules/webhook*.c) $(addprefix services/edge/table/,document.c slab.c))
fuzz-library:
	@$(MAKE) --no-print-directory build/fuzz/lib/libpostern.a $(FUZZED_OBJ) $(FUZZED_TABLE) $(FUZZED_AGENTS) $(FUZZED_COOKIES) $(FUZZED_WEBHOOK) $(FUZZED_XML) \
	    BUILD=build/fuzz/lib CC=clang CXX=clang++ CFLAGS="-O1 -g" CXXFLAGS="-O1 -g" \
	    SAN="-fsanitize=fuzzer-no-link,$(FUZZ_SAN) -fno-sanitize-recover=all"
	@$(call INSTRUMENTED,build/fuzz/lib,__asan_report_load __ubsan_handle __sanitizer_cov)

# What fuzzes a file that is written for nginx needs nginx's headers, and what its configure has found for the edge.
NGINX_CPP := -Ibuild/edge $(addprefix -I/usr/share/nginx/src/src/,core event event/modules os/unix http http/modules http/v2)
build/edge/ngx_auto_config.h:
	@$(MAKE) --no-print-directory edge BUILD=build
build/fuzz/pieces: tests/fuzz/fuzz_pieces.c services/edge/http/edge_pieces.c $(wildcard services/edge/*/*.h) | build/edge/ngx_auto_config.h
	@mkdir -p $(@D)
	$(Q)clang -std=gnu17 $(CPPFLAGS) $(NGINX_CPP) -O1 -g -fsanitize=fuzzer,$(FUZZ_SAN) -fno-sanitize-recover=all $(filter %.c,$^) -o $@

build/fuzz/%: tests/fuzz/fuzz_%.c fuzz-library
	$(Q)clang -std=gnu17 $(CPPFLAGS) -O1 -g -fsanitize=fuzzer-no-link,$(FUZZ_SAN) -c $< -o $@.o
	$(Q)clang++ -fsanitize=fuzzer,$(FUZZ_SAN) $@.o $(FUZZED_OBJ) $(if $(filter table,$*),$(FUZZED_TABLE)) $(if $(filter agents,$*),$(FUZZED_AGENTS)) $(if $(filter cookies,$*),$(FUZZED_COOKIES)) $(if $(filter webhook sns,$*),$(FUZZED_WEBHOOK)) $(if $(filter saml envelope,$*),$(FUZZED_XML)) \
	    build/fuzz/lib/libpostern.a $(LDLIBS) -o $@

# A parser is one process: as many at once as there are processors.
fuzz: $(FUZZERS:%=build/fuzz/%)
	@printf '%s\n' $(FUZZERS) | FUZZ_SECONDS=$(FUZZ_SECONDS) xargs -P "$$(nproc)" -n 1 tests/fuzz/run

FORMATTED := $(EDGE_PURE) $(filter-out services/edge/%,$(wildcard common/*/*.[ch] common/*/*.cc services/*/*.[ch] tests/unit/*.c tests/fuzz/*.c tests/networks/*.c tests/roles/*.c))
TIDY      := $(filter %.c,$(EDGE_PURE)) $(filter-out services/edge/%,$(wildcard common/*/*.c services/*/*.c))

format:
	@clang-format -i $(FORMATTED)
	@tests/house/services --write
	@tests/house/settings --write

house:
	@tests/house/measure $(if $(HOUSE_BEFORE),--before "$(HOUSE_BEFORE)")

# The recipes of CONTRIBUTING.md, in a scratch copy.
recipes: node-packages
	@tests/recipes/run

lint: $(BUILD)/gen/kinds.inc
	@tests/house/includes
	@tests/house/services
	@tests/house/settings
	@tests/house/measure --limits
	@clang-format --dry-run --Werror $(FORMATTED)
	@printf '%s\n' $(TIDY) | xargs -P 2 -n 4 sh -c 'clang-tidy --quiet "$$@" -- -std=gnu17 $(CPPFLAGS) 2>/dev/null' sh

# ---- everything ----

E2E_PORT ?= 9400
E2E_DIR ?= build/e2e
E2E_HOME := $(abspath $(E2E_DIR)/var)
E2E_BUILD ?= build/asan
# What has to be built first, and the runtimes that the edge is started with.
E2E_NEEDS ?= asan-programs
E2E_RUNTIMES ?= $$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libubsan.so)

node-packages:
	@cd tests/e2e && { [ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --no-audit --no-fund --silent; }

STORIES ?= tests/e2e/*.test.mjs $(addprefix tests/clients/,wire.test.mjs typescript.test.mjs python.test.mjs go.test.mjs) tests/contract/*.test.mjs tests/model/*.test.mjs tests/tenants/*.test.mjs tests/hostile/*.test.mjs tests/lasso/*.test.mjs

# Stories against the whole product under ASan and UBSan, on ports and state of their own; with E2E_BEFORE=1 on the database of the
# version before migrations had names.
e2e: $(E2E_NEEDS) node-packages
	@mkdir -p $(E2E_DIR)
	@resolver=$$(mktemp -d /tmp/postern-resolver-XXXXXX); chmod 755 $$resolver; trap 'rm -rf $$resolver' EXIT; \
	$(CC) -O1 -shared -fPIC tests/support/slow_resolver.c -o $$resolver/slow_resolver.so || exit 1; \
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 9 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
	    -keyout $$resolver/upstream.key -out $$resolver/upstream.pem 2>/dev/null && chmod 644 $$resolver/upstream.pem || exit 1; \
	export POSTERN_UPSTREAM_CA=$$resolver/upstream.pem STORY_UPSTREAM_TLS=$$resolver/upstream; \
	export POSTERN_OUT_CA=$$resolver/upstream.pem POSTERN_OUT_ALLOWED=127.0.0.1:$$(($(E2E_PORT) + 96))-$$(($(E2E_PORT) + 98)) \
	    POSTERN_OUT_CONNECT="$$(echo $$(for n in 1 2 3 4; do echo sns.st-story-$$n.amazonaws.com:443:127.0.0.1:$$(($(E2E_PORT) + 97)); done) sns.st-story-5.amazonaws.com:443:127.0.0.1:$$(($(E2E_PORT) + 99)) issuer.example.test:80:127.0.0.1:$$(($(E2E_PORT) + 98)))"; \
	for name in $$(sed -n "s/^OAUTH_PROVIDER(\([a-z]*\),.*/\1/p" proto/oauth_providers.def); do at=https://localhost:$$(($(E2E_PORT) + 96))/$$name; \
	    export POSTERN_OAUTH_$$(echo $$name | tr a-z A-Z)_URL="$$at/web$$([ $$name != microsoft ] || echo /common) $$at/api $$at/token"; done; \
	export POSTERN_OAUTH_GITHUB_CLIENT_ID=story-github POSTERN_OAUTH_GITHUB_CLIENT_SECRET=story-secret POSTERN_OAUTH_GOOGLE_CLIENT_ID=story-google POSTERN_OAUTH_GOOGLE_CLIENT_SECRET=story-secret; \
	export POSTERN_HOME=$(E2E_HOME) POSTERN_PORT_BASE=$(E2E_PORT) POSTERN_BUILD=$(abspath $(E2E_BUILD)) POSTERN_RENEW_SECONDS=1 POSTERN_TIDY_SECONDS=1 POSTERN_SLOW_RESOLVER=1 POSTERN_USER_JWTS=1m POSTERN_GONE_ROUTES_SECONDS=86400 \
	    POSTERN_TRUSTED_PROXIES="$${POSTERN_TRUSTED_PROXIES:-127.0.0.2 127.0.0.3}" POSTERN_PROXY_PROTOCOL_FROM="$${POSTERN_PROXY_PROTOCOL_FROM:-127.0.0.3 127.0.0.8/30}" \
	    ASAN_OPTIONS=detect_leaks=1:halt_on_error=1 UBSAN_OPTIONS=print_stacktrace=1 \
	    POSTERN_EDGE_PRELOAD="$(E2E_RUNTIMES) $$resolver/slow_resolver.so"; \
	deploy/stack wipe; $(if $(E2E_BEFORE),tests/upgrade/restore $(E2E_HOME);) deploy/stack up >$(E2E_DIR)/up.log 2>&1 || { cat $(E2E_DIR)/up.log; deploy/stack down; exit 1; }; \
	tests/support/stories $(STORIES); r=$$?; \
	deploy/stack down; \
	tests/support/crashes $(E2E_HOME) || r=1; \
	exit $$r

# What the edge says of addresses, against Python's ipaddress; and what that costs among few networks and many.
$(BUILD)/bin-test/networks: $(call OBJ,tests/networks/networks.c services/edge/table/networks.c services/edge/table/slab.c) $(BUILD)/libpostern.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $^ $(LDLIBS) -o $@

networks: $(BUILD)/bin-test/networks
	@tests/networks/compare $<
	@$< 10 1000 100000

# What these edges have in common with that of asan-programs is not compiled again.
LIKE_ASAN := POSTERN_EDGE_LIKE=$(abspath build/asan/edge)

# Route modules that wait, on an edge with modules that only tests have (tests/edge-module).
TOY_SO := build/toy/edge/ngx_http_postern_module.so
$(TOY_SO): $(EDGE_SRC) $(wildcard tests/edge-module/*) | asan-programs
	$(Q)$(LIKE_ASAN) POSTERN_MSGPACK_LIB=$(LDMSG) POSTERN_EDGE_MODULES=$(abspath tests/edge-module) deploy/build-edge $(abspath build/toy/edge) "$(SANITIZE)"
	@ln -sfn ../asan/bin build/toy/bin

suspend: $(TOY_SO)
	@POSTERN_CLIENT_PORTION=10000 POSTERN_ACCOUNT_PORTION=10000 $(MAKE) --no-print-directory e2e E2E_BUILD=build/toy STORIES='tests/suspend/*.test.mjs'

# The story of revocations at its full size, against the build that users run: as many as REVOCATIONS says.
revocations:
	@export REVOCATIONS=$${REVOCATIONS:-10000} CLIENTS=$${CLIENTS:-1000} POSTERN_EDGE_WORKERS=$${POSTERN_EDGE_WORKERS:-4} POSTERN_CLIENT_KEEPALIVE_REQUESTS=1000000 POSTERN_CLIENT_KEEPALIVE_TIMEOUT=1h; \
	STORIES_TIMEOUT_MS=86400000 STORIES_LIMIT=86400 $(MAKE) --no-print-directory e2e E2E_NEEDS=all E2E_BUILD=build E2E_RUNTIMES= STORIES=tests/e2e/revocation.test.mjs

# Edges that break a promise on purpose (tests/mutants), each of which the story of that promise has to find out.
MUTANT_SO := build/mutant/edge/ngx_http_postern_module.so
$(MUTANT_SO): $(EDGE_SRC) $(wildcard tests/mutants/*) | asan-programs
	$(Q)$(LIKE_ASAN) POSTERN_MSGPACK_LIB=$(LDMSG) tests/mutants/build ack-before-apply $(abspath build/mutant) "$(SANITIZE)"
	@ln -sfn ../asan/bin build/mutant/bin

mutants: $(MUTANT_SO)
	@REVOCATION_MUTANT=1 $(MAKE) --no-print-directory e2e E2E_BUILD=build/mutant STORIES=tests/e2e/revocation.test.mjs

# The generated bodies of tests/contract, many of them.
contract:
	@CONTRACT_CASES=$${CONTRACT_CASES:-100000} STORIES_TIMEOUT_MS=3600000 STORIES_LIMIT=3600 $(MAKE) --no-print-directory e2e STORIES=tests/contract/contract.test.mjs

# Every method of every official client, as the registries of their languages have them: more ages of them than the gate's.
clients:
	@CLIENTS_PYTHON="$${CLIENTS_PYTHON:-0.8.0 0.10.0 0.12.0 0.14.0 0.16.0 0.19.0}" CLIENTS_GO="$${CLIENTS_GO:-v4.0.1 v5.4.1 v7.8.0 v9.0.0}" \
	    STORIES_TIMEOUT_MS=3600000 STORIES_LIMIT=3600 $(MAKE) --no-print-directory e2e STORIES='tests/clients/*.test.mjs'

# The model of the edge (tests/model): as many changes as MODEL_CHANGES says.
model:
	@STORIES_TIMEOUT_MS=86400000 STORIES_LIMIT=86400 $(MAKE) --no-print-directory e2e STORIES=tests/model/model.test.mjs

# Two accounts (tests/tenants): everything that the tables know, tried by one on the other's.
tenants:
	@STORIES_TIMEOUT_MS=86400000 STORIES_LIMIT=86400 $(MAKE) --no-print-directory e2e STORIES=tests/tenants/tenants.test.mjs

# Requests and answers that nobody would write (tests/hostile): as many as HOSTILE_REQUESTS says.
hostile:
	@STORIES_TIMEOUT_MS=86400000 STORIES_LIMIT=86400 $(MAKE) --no-print-directory e2e STORIES=tests/hostile/hostile.test.mjs

# Changed SAML responses against lasso (tests/lasso), for the build that users run: as many as SAML_MUTANTS says.
lasso: all node-packages
	@mkdir -p $(E2E_DIR)
	@export POSTERN_HOME=$(E2E_HOME) POSTERN_PORT_BASE=$(E2E_PORT); \
	deploy/stack wipe; deploy/stack up >$(E2E_DIR)/up.log 2>&1 || { cat $(E2E_DIR)/up.log; deploy/stack down; exit 1; }; \
	STORIES_TIMEOUT_MS=86400000 STORIES_LIMIT=86400 tests/support/stories tests/lasso/*.test.mjs; r=$$?; \
	deploy/stack down; \
	tests/support/crashes $(E2E_HOME) || r=1; \
	exit $$r

# Who may do what on the bus, as deploy/stack sets it up: every role of the tables against every verb, socket and name.
$(BUILD)/bin-test/roles: $(call OBJ,tests/roles/roles.c) $(BUILD)/libpostern.a
	@mkdir -p $(@D)
	$(Q)$(CXX) $(LDFLAGS) $^ $(LDLIBS) -o $@

roles: all $(BUILD)/bin-test/roles
	@mkdir -p $(E2E_DIR)
	@export POSTERN_HOME=$(E2E_HOME) POSTERN_PORT_BASE=$(E2E_PORT); \
	deploy/stack wipe; deploy/stack up >$(E2E_DIR)/up.log 2>&1 || { cat $(E2E_DIR)/up.log; deploy/stack down; exit 1; }; \
	tests/roles/run $(BUILD)/bin-test/roles; r=$$?; \
	deploy/stack down; \
	tests/support/crashes $(E2E_HOME) || r=1; \
	exit $$r

# Kills and cuts, and 10,000 changes each requested at once, against the build that users run.
# So are the stories of bodies, of compression, of converted WebSockets and of changes that leave nothing behind: what they say of memory has no
# sanitizer in it here. And that of SAML messages: without a sanitizer their sandbox has its whole filter of system calls.
chaos: all node-packages
	@mkdir -p $(E2E_DIR)
	@export POSTERN_HOME=$(E2E_HOME) POSTERN_PORT_BASE=$(E2E_PORT); \
	deploy/stack wipe; deploy/stack up >$(E2E_DIR)/up.log 2>&1 || { cat $(E2E_DIR)/up.log; deploy/stack down; exit 1; }; \
	STORIES_TIMEOUT_MS=600000 tests/support/stories tests/e2e/bodies.test.mjs tests/e2e/compression.test.mjs tests/e2e/compression-streams.test.mjs tests/e2e/websocket-tcp-converter.test.mjs tests/e2e/saml-verify.test.mjs \
	    tests/growth/changes.test.mjs tests/chaos/*.test.mjs; r=$$?; \
	deploy/stack down; \
	tests/support/crashes $(E2E_HOME) || r=1; \
	exit $$r

# Objects that are made and deleted again, on a stack that forgets within a minute what others forget within a day or a year.
growth: all node-packages
	@mkdir -p $(E2E_DIR)
	@export POSTERN_HOME=$(E2E_HOME) POSTERN_PORT_BASE=$(E2E_PORT) \
	    POSTERN_IDEMPOTENCY_SECONDS=60 POSTERN_TIDY_SECONDS=1 POSTERN_EVENT_LOG_EVENTS=1000 POSTERN_EVENT_LOG_TRIM_SECONDS=1; \
	deploy/stack wipe; deploy/stack up >$(E2E_DIR)/up.log 2>&1 || { cat $(E2E_DIR)/up.log; deploy/stack down; exit 1; }; \
	objects=$${GROWTH_OBJECTS:-3000}; export GROWTH_CHANGES=$${GROWTH_CHANGES:-100000}; \
	STORIES_TIMEOUT_MS=$$((1800000 + 60 * objects + 20 * GROWTH_CHANGES)) STORIES_LIMIT=$$((1830 + 6 * objects / 100 + GROWTH_CHANGES / 50)) tests/support/stories tests/growth/*.test.mjs; r=$$?; \
	deploy/stack down; \
	tests/support/crashes $(E2E_HOME) || r=1; \
	exit $$r

clang:
	@$(MAKE) --no-print-directory programs BUILD=build/clang CC=clang CXX=clang++

# What runs when is in tests/gate; ALSO names parts beyond those. The hostile bytes and the changed SAML responses are the
# same each time: what they find is what a change broke. make hostile and make lasso draw others, and make fuzz goes on for longer.
test: export HOSTILE_SEED ?= 1
test: export SAML_SEED ?= 1
test: export FUZZ_SECONDS = 12
test:
	@MAKE="$(MAKE)" JOBS="$(JOBS)" tests/gate $(ALSO)

bench: deps
	@for program in wrk h2load node haproxy caddy apache2; do command -v $$program >/dev/null || { deploy/install-packages bench; break; }; done
	@$(MAKE) --no-print-directory all node-packages
	@for part in edge bodies modules sessions resources; do echo "==== $$(date +%T) $$part"; tests/bench/$$part || exit 1; done

# Both roots to a served request and its event, one to the unit tests. All of make test in one: tests/fresh full bookworm.
test-fresh:
	@tests/fresh trixie
	@tests/fresh check bookworm

compose:
	@tests/compose
