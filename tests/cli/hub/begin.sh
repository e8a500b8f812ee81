# . $SOURCE/tests/cli/hub/begin.sh -- a hub for the case that reads this, see server.py; it ends with the case. `get` is a download whose
# messages, codes and ports are printed as they should be in the record.
unset HF_TOKEN http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
python3 "$SOURCE/tests/cli/hub/server.py" "$PWD" 2>server.err &
hub=$!
trap 'kill $hub' EXIT
tries=0
until [ -s ports ] || [ $((tries += 1)) -gt 400 ]; do sleep 0.05; done
read -r hub_port store_port <ports
HF_ENDPOINT=http://127.0.0.1:$hub_port
export HF_ENDPOINT
get() {
    repo=$1
    shift
    echo "$repo $*"
    reprise download "test/$repo" -o here --retry-wait 0.01 "$@" >out 2>err
    code=$?
    sed "s/:$hub_port/:HUB/g; s/:$store_port/:STORE/g; s/^/    /" err
    [ ! -s out ] || sed 's/^/    > /' out
    echo "    exit $code"
}
