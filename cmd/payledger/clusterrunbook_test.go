package main

import (
	"fmt"
	"strings"
	"testing"

	"payledger/cmd/doctest"
	"payledger/notifier/health/healthtest"
)

// threeMachines stand for the machines of the runbook: ssh runs a command with the
// directory of the node that it names, and systemctl starts and stops its server. What a
// reader takes over from one command to the next is in variables afterwards.
const threeMachines = `
ready() {
  until grep -qs base_url "$1.ready"; do
    kill -0 "$(cat "$1.pid")" || { cat "$1.log"; return 1; }
    sleep 0.05
  done
}
DIR=$PWD POSITION=
trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT
ssh() {
  local node=$1 a args=()
  shift
  for a; do
    [ "$a" = key ] && a=$DIR/$node.key
    args+=("${a/#$DATA/$DIR/$node}")
  done
  case "${args[*]:0:3} " in
    "systemctl start "*)
      rm -f "$node.ready"
      payledger serve --data "$DIR/$node" --json > "$node.ready" 2>> "$node.log" &
      echo $! > "$node.pid" ;;
    "systemctl stop "*)
      ready "$node"
      kill "$(cat "$node.pid")"
      wait "$(cat "$node.pid")" || { cat "$node.log"; return 1; } ;;
    "install "*) ;;
    "payledger cluster leave ")
      out=$("${args[@]}") || return 1
      echo "$out"
      at=$(sed -n 's/.* has come to position \([0-9]*\).*/\1/p' <<< "$out")
      [ "${at:-0}" -le "${POSITION:-0}" ] || POSITION=$at ;; # that of the node that stopped last
    *) "${args[@]}" ;;
  esac
}
payledger init --data "$DIR/a"
ssh a systemctl start payledger
ready a
payledger project create Shop --data "$DIR/a"
`

// clusterRunbook runs the runbook's commands about three nodes, one after the other.
func clusterRunbook(t *testing.T) doctest.Section {
	t.Helper()
	var addresses []string
	for i, port := range []int{7400, 7400, 7400} {
		addresses = append(addresses, fmt.Sprintf("10.0.0.%d:%d", i%3+1, port), healthtest.FreeAddress(t))
	}
	return doctest.Section{
		Heading: "Three nodes", Env: []string{"DATA=/var/lib/payledger", "PAYLEDGER_LISTEN=127.0.0.1:0"},
		Edit: strings.NewReplacer(append(addresses,
			// The machine is lost with all it had.
			"ssh a cat \"$DATA/cluster.key\" > key\nssh c tee", "ssh c systemctl stop payledger\nrm -r \"$DIR/c\"\nssh a cat \"$DATA/cluster.key\" > key\nssh c tee")...),
		Before: threeMachines,
		After: `ready a
payledger project list --data "$DIR/a"`,
		Want: []string{"leader", "witnesses vouch", "is in no cluster any more", "Shop"},
	}
}
