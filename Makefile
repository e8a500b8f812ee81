# make: the release program at build/reprise. make check: set up and test. make demo: fine-tune a real model.
# make bench: the benchmarks, build/bench_NAME. make site: the documentation as HTML, build/site. make deb: Debian packages, build/deb.
# make program: build/reprise, without the tests and the library.
BUILD ?= build
.PHONY: all build program setup check check-long demo bench site deb install clean
all: build
# If CMake fails because packages are missing, only tools/setup prints: it names them all.
build program:
	@errors=$$(cmake -S . -B $(BUILD) -DCMAKE_BUILD_TYPE=Release 2>&1 >/dev/null) || failed=1; \
	[ -z "$$failed" ] || tools/setup --check || exit 2; \
	[ -z "$$errors" ] || echo "$$errors" >&2; \
	[ -z "$$failed" ] && cmake --build $(BUILD) -j $$(nproc) $(if $(filter program,$@),--target reprise_program)
setup:
	@tools/setup
check: setup
	@tools/check
check-long:
	@tools/setup --long
	@tools/check --long
demo: setup
	@tools/quietly "building the program, a few minutes" $(MAKE) --no-print-directory program
	@tools/demo
bench: build
	@cmake --build $(BUILD) -j $$(nproc) --target bench
site: build
	@tools/doctest $(BUILD)
	@tools/make_site $(BUILD)/site
deb:
	@tools/make_deb $(BUILD)/deb
install: build
	cmake --install $(BUILD)
clean:
	rm -rf $(BUILD) build-*
