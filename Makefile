# make: the release program at build/reprise. make check: set up and test. make demo: fine-tune a real model.
BUILD ?= build
.PHONY: all build setup check check-long demo bench docs install clean
all: build
build:
	@cmake -S . -B $(BUILD) -DCMAKE_BUILD_TYPE=Release >/dev/null && cmake --build $(BUILD) -j
setup:
	tools/setup
check: setup build
	tools/check
check-long: setup build
	tools/check --long
demo: setup build
	tools/demo
install: build
	cmake --install $(BUILD)
clean:
	rm -rf $(BUILD)
