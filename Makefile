# make: the release program at build/reprise. make check: set up and test. make demo: fine-tune a real model.
# make bench: the benchmarks, build/bench_NAME.
BUILD ?= build
.PHONY: all build setup check check-long demo bench install clean
all: build
build:
	@cmake -S . -B $(BUILD) -DCMAKE_BUILD_TYPE=Release >/dev/null && cmake --build $(BUILD) -j $$(nproc)
setup:
	@tools/setup
check: setup
	@tools/check
check-long:
	@tools/setup --long
	@tools/check --long
demo: setup
	@$(MAKE) --no-print-directory build
	@tools/demo
bench: build
	@cmake --build $(BUILD) -j $$(nproc) --target bench
install: build
	cmake --install $(BUILD)
clean:
	rm -rf $(BUILD) build-*
