# Wrong bytes, servers that lie, disks that are full and folders that cannot be written: nothing wrong gets a name, what is right stays.
# ctest: threads
. "$SOURCE/tests/cli/hub/begin.sh"
parts() { find here -name '*.part' | LC_ALL=C sort; [ ! -e here/model.safetensors ] || echo "it got its name"; rm -rf here; }
get wrong
parts
get no-digests-wrong
parts
get longer --retries 1
parts
get shorter --retries 1
parts
get in-circles
parts
get piece-missing
parts
mkdir here
head -c 1000 /dev/zero >here/model.safetensors.part
get other-range
parts
get huge 2>&1 | sed 's/room for [^,]*,/room for N,/'
parts
(ulimit -f 200; get plain)
ls here
get plain
rm -rf here
echo >file
get plain -o file
get plain -o file/below
mkdir closed
chmod 555 closed
case $(id -u) in
0) chmod 777 . && (unset HF_TOKEN; setpriv --reuid 65534 --clear-groups -- reprise download test/plain -o closed) ;;
*) reprise download test/plain -o closed ;;
esac 2>&1
echo "exit $?"
printf 'openssl_conf = all\n[all]\nproviders = them\n[them]\nnull = one\n[one]\nactivate = 1\n' >null.cnf
(OPENSSL_CONF=$PWD/null.cnf; export OPENSSL_CONF; get plain)
rm -rf here
mkdir here
ln -s ../elsewhere here/model.safetensors.part
get plain
[ ! -e elsewhere ] && echo "nothing is written through a link"
rm -rf here && mkdir here
(flock 9; get plain) 9>here/model.safetensors.part
