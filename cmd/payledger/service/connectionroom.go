package service

import (
	"fmt"

	"payledger/cmd/payledger/exit"
	"payledger/notifier/webhook"
)

const (
	// DefaultConnections is how many connections a listener takes by default.
	DefaultConnections  = 4096
	maxAddressShare     = 256 // of them for one address, by default
	maxAdminConnections = 32  // to the admin socket, and to the admin listener

	// ownFiles are kept for the databases, JetStream and the operator.
	ownFiles = 128

	// minConnections are those below which it is of no use to start.
	minConnections = 16

	// minWebhooks are sent at once in any case, with some of ownFiles if need be.
	minWebhooks = 8
)

// connectionRoom is how many connections the public listener takes, and how
// many requests to webhook endpoints may be under way.
type connectionRoom struct{ all, perAddress, webhooks int }

// connectionRoom finds how many connections there is room for. What neither
// they nor ownFiles take is for outgoing connections and those to NATS: a
// webhook has a quarter of it, because it takes two files while it looks up a
// name or tries both kinds of addresses, and may leave one connection idle. Go
// has raised the limit of open files to the hard one when the process started.
func (o Options) connectionRoom() (connectionRoom, error) {
	limit, limited := openFileLimit()
	room, most := connectionRoom{all: DefaultConnections, webhooks: webhook.DefaultRequests}, uint64(1<<20)
	if limited {
		most = max(limit, ownFiles) - ownFiles
		room.all = int(min(DefaultConnections, most/2))
		if room.all < minConnections {
			return room, exit.With(exit.Failed, "the limit of open files is %d, too few to serve: want %d or more; raise it with ulimit -n, or LimitNOFILE= of systemd",
				limit, ownFiles+2*minConnections)
		}
	}
	if n := o.Connections; n != nil {
		if *n < 1 {
			return room, exit.With(exit.Usage, "--max-connections %d: want 1 or more", *n)
		}
		if uint64(*n) > most {
			return room, exit.With(exit.Usage, "--max-connections %d: the limit of open files, %d, leaves room for %d; raise it with ulimit -n, or LimitNOFILE= of systemd",
				*n, limit, most)
		}
		room.all = *n
	} else if room.all < DefaultConnections {
		o.Log.Warn().Uint64("limit_of_open_files", limit).Int("max_connections", room.all).
			Msg(fmt.Sprintf("fewer connections than usual: the limit of open files is low; %d or more is better (ulimit -n, LimitNOFILE= of systemd)", ownFiles+2*DefaultConnections))
	}
	if limited {
		left := most - uint64(room.all)
		room.webhooks = int(min(webhook.DefaultRequests, max(minWebhooks, left/4)))
	}
	room.perAddress = min(maxAddressShare, max(1, room.all/4))
	if n := o.PerAddress; n != nil {
		if *n < 0 {
			return room, exit.With(exit.Usage, "--max-connections-per-address %d: want 0 for no limit, or more", *n)
		}
		room.perAddress = *n
	}
	return room, nil
}
