#!/usr/bin/env bash
# Removes each room behind a wall from a copy of this checkout: its folders, the file with its line of wiring, and the
# tests that need it. The rest must build and vet, and the packages that named the room must pass their tests. Arguments
# select rooms.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
selected=" $* "

# room NAME 'paths' 'packages to test' ['file:pattern of its lines of wiring there']
room() {
	local name=$1 paths=$2 packages=$3 wiring=${4:-}
	[[ $selected == "  " || $selected == *" $name "* ]] || return 0
	rm -rf "$copy/$name" && mkdir "$copy/$name"
	(cd "$root" && git ls-files -z | xargs -0 tar -c 2>/dev/null | tar -x -C "$copy/$name")
	cd "$copy/$name"
	for path in $paths; do
		[[ -e $path ]] || { echo "removals: $name: $path: no such path" >&2; exit 1; }
		rm -r "$path"
	done
	[[ -z $wiring ]] || sed -i "/${wiring#*:}/d" "${wiring%%:*}"
	go build -trimpath -o /dev/null ./local/weir
	go vet -trimpath ./...
	[[ ! -d local/lab ]] || go -C local/lab vet -trimpath ./...
	[[ -z $packages ]] || go test -trimpath -vet=off -short -skip '^Test(Docs|Model|Supply)' $packages # pages name the rooms; Model needs Flask
	echo "removals: $name: gone, and the rest works"
	cd "$root" && rm -rf "${copy:?}/$name"
}

room edge 'functions/edge infra/edge local/weir/edge.go local/weir/edge_test.go' ''
room layer 'functions/extension functions/runtimeproxy local/lab/examples' ''
room log 'functions/log local/lab/kafka' ''
room redis 'limiter/redisstore functions/rediscache functions/stores/redis.go functions/boot/redis_test.go functions/contract/redis_test.go limiter/storetest/redis_test.go local/lab/bench/alone_test.go local/lab/bench/redis_test.go local/lab/simulate/real_test.go local/lab/faults' './functions/contract ./limiter/storetest'
room client 'limiter/httpclient' ''
room otel 'limiter/otellimit local/lab/prometheus' ''
room verify 'local/verify local/weir/verify.go' './local/weir'
room console 'local/console local/lab/console local/weir/console.go' './local/serve'
room starter 'local/starter local/lab/starter' ''
room lab 'local/lab' ''
room regions 'limiter/internal/regions limiter/internal/chain/contract_test.go' './limiter/memstore' 'limiter/limiter.go:regions"$\|regions\.Regions{'
