# Connections that break, servers that are busy, downloads that are stopped: all go on where they were, and the bytes are those of the hub.
# ctest: threads long
. "$SOURCE/tests/cli/hub/begin.sh"
same() { sha256sum here/model.safetensors | cut -c 1-16; grep -o 'store .*' log | sed 's/?[^ ]*//'; rm -rf here log; }
get drops
same
get busy
same
get no-ranges
same
mkdir here
head -c 1234 /dev/zero >here/model.safetensors.part
get plain
same
mkdir here
head -c 400000 /dev/zero >here/model.safetensors.part
get plain
same
mkdir here
echo old >here/model.safetensors
get plain
same
reprise download test/slow -o here --retry-wait 0.01 2>err &
tries=0
until [ -s here/model.safetensors.part ] || [ $((tries += 1)) -gt 200 ]; do sleep 0.05; done
kill -INT $!
wait $!
echo "exit $?"
tail -n 1 err
[ -s here/model.safetensors.part ] && [ ! -e here/model.safetensors ] && echo "a part of it is there"
rm log
reprise download test/slow -o here 2>err
echo "exit $?"
grep -c 'continuing after' err
grep -c 'bytes=' log
sha256sum here/model.safetensors | cut -c 1-16
