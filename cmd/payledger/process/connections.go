package process

import (
	"fmt"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"payledger/cmd/payledger/cli"
	"payledger/notifier/webhook"
)

const (
	// DefaultConnections is how many connections a listener takes by default.
	DefaultConnections = 4096
	maxAddressShare    = 256 // of them for one address, by default

	// ownFiles are reserved for the databases, JetStream and the operator.
	ownFiles = 128

	// minConnections are those below which it is of no use to start.
	minConnections = 16

	// minWebhooks are sent at once in any case, with some of ownFiles if need be.
	minWebhooks = 8
)

// Connections is how many connections the public listener takes, in all and of one
// address (0: as many), and how many requests to webhook endpoints may be under way.
type Connections struct{ All, PerAddress, Webhooks int }

// RoomFor computes the limits of connections; all and perAddress are the operator's settings, nil:
// the default. The rest of the open files, without ownFiles, is for outgoing connections and those
// to NATS: a webhook has a quarter of it, because it takes two files while it looks up a name or
// tries both kinds of addresses, and may leave one connection idle. Go has raised the limit of open
// files to the hard one when the process started.
func RoomFor(all, perAddress *int, log zerolog.Logger) (Connections, error) {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return Connections{}, cli.Errorf(cli.ExitFailed, "reading the limit of open files: %w", err)
	}
	limit := uint64(files.Cur) //nolint:unconvert // signed on some systems
	most := max(limit, ownFiles) - ownFiles
	room := Connections{All: int(min(DefaultConnections, most/2))}
	if room.All < minConnections {
		return room, cli.Errorf(cli.ExitFailed, "the limit of open files is %d, too few to serve: want %d or more; raise it with ulimit -n, or LimitNOFILE= of systemd",
			limit, ownFiles+2*minConnections)
	}
	if n := all; n != nil {
		if *n < 1 {
			return room, cli.Errorf(cli.ExitUsage, "--max-connections %d: want 1 or more", *n)
		}
		if uint64(*n) > most {
			return room, cli.Errorf(cli.ExitUsage, "--max-connections %d: the limit of open files, %d, allows %d; raise it with ulimit -n, or LimitNOFILE= of systemd",
				*n, limit, most)
		}
		room.All = *n
	} else if room.All < DefaultConnections {
		log.Warn().Uint64("limit_of_open_files", limit).Int("max_connections", room.All).
			Msg(fmt.Sprintf("fewer connections than usual: the limit of open files is low; %d or more is better (ulimit -n, LimitNOFILE= of systemd)", ownFiles+2*DefaultConnections))
	}
	room.Webhooks = int(min(webhook.DefaultRequests, max(minWebhooks, (most-uint64(room.All))/4)))
	room.PerAddress = min(maxAddressShare, max(1, room.All/4))
	if n := perAddress; n != nil {
		if *n < 0 {
			return room, cli.Errorf(cli.ExitUsage, "--max-connections-per-address %d: want 0 for no limit, or more", *n)
		}
		room.PerAddress = *n
	}
	return room, nil
}
