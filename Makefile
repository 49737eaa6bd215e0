# What a person types; everything else is CMake's (cmake --list-presets) and the scripts' in tools/.
#   make demo       install what is needed, build, show what the cache does
#   make test       everything that has to hold, the way CI runs it
#   make bench-peers  the prefix index beside other projects' own, which are fetched and built (needs cargo; 3 GB)
#   make setup | build | bench | format | tidy | install PREFIX=/usr/local

PREFIX ?= /usr/local
RHIZOME = build/release/bin/rhizome
export CCACHE_DIR ?= $(or $(RHIZOME_SETUP_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/rhizome-setup)/ccache

.PHONY: help setup build demo test bench bench-peers format tidy install

help:
	@sed -n 's/^# \{0,1\}//p' Makefile

setup:
	@tools/setup

build: setup
	@echo "build: the program and the library, build/release (some minutes the first time)"
	@cmake --preset release $(if $(LLAMA_FROM),-DLLAMA_FROM=$(LLAMA_FROM)) \
	  $(if $(RHIZOME_LLAMA_SOURCE),-DRHIZOME_LLAMA_SOURCE=$(RHIZOME_LLAMA_SOURCE)) > build-configure.log 2>&1 \
	  && rm -f build-configure.log || { cat build-configure.log; rm -f build-configure.log; exit 1; }
	@cmake --build --preset release --target rhizome bundle rhizome_library
	@echo "build: $(RHIZOME), and librhizome_llama.so and librhizome.so in build/release/lib"

demo: build
	@$(RHIZOME) bench agents demo

bench: build
	@$(RHIZOME) bench agents

# ROUNDS=5 for more of them, PEERS_FLAGS=--json for the last line only, PEERS_FLAGS=--without-sglang for less to fetch.
bench-peers: build
	@bench/peers/run.py --rounds $(or $(ROUNDS),3) $(PEERS_FLAGS)

test:
	@tools/setup --test
	@python3 tools/run_tests.py

format:
	@git ls-files 'src/*.h' 'src/*.cc' 'tests/*.h' 'tests/*.cc' 'tools/*.cc' 'examples/*.cc' | xargs clang-format-19 -i

tidy:
	@tools/setup --test
	@python3 tools/run_tests.py tidy lint --all

# As another user than the one who built, nothing is set up again: what is there is copied.
install:
	@[ -x $(RHIZOME) ] && [ -e build/release/lib/librhizome.so ] || $(MAKE) build
	@cmake --install build/release --prefix $(PREFIX)
