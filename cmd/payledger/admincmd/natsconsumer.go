package admincmd

import (
	"fmt"

	"payledger/cmd/payledger/cli"
	"payledger/domain/installation"
)

// NATS groups the commands on the embedded NATS server.
type NATS struct {
	Consumer natsConsumerCmd `cmd:"" help:"Give readers of events their own credentials and position."`
}

type natsConsumerCmd struct {
	Create consumerCreateCmd `cmd:"" help:"Make a consumer with its own credentials."`
	List   consumerListCmd   `cmd:"" help:"List the consumers and how far they are."`
	Reset  consumerResetCmd  `cmd:"" help:"Move a consumer to another position of the log."`
	Remove consumerRemoveCmd `cmd:"" help:"Take a consumer away: its credentials and its position."`
}

// Help is shown by --help.
func (natsConsumerCmd) Help() string {
	return `Each consumer reads the events of payments from the JetStream stream EVENTS, of one project
or of all, and gets every one of them, regardless of other readers. Programs that connect as the
same consumer share its events.

A consumer NAME connects to --nats-listen as user NAME, with inboxes under _INBOX_NAME, and
pulls from the durable consumer NAME with explicit acknowledgement. It may also ask what the
payments it reads of are for, and one of all projects hears the log's checkpoints; nothing else.
An event comes again until it is acknowledged, and after a crash acknowledged ones may come
again too: tell them apart by ce-id. None is skipped, even when nats/ was deleted.

The consumers are in the log, with hashes of their passwords; how far they got is in
DIR/nats-consumers.json, without which they begin again. With --nats-url that server has the users.`
}

type consumerCreateCmd struct {
	Anyway
	Name    string `arg:"" help:"Its name: 1 to 32 of a-z, 0-9, - and _, beginning with a letter." json:"name"`
	Project string `help:"Only the events of this project's payments. Default: those of all." placeholder:"PROJECT" json:"project_id,omitzero"`
}

// Help is shown by --help.
func (consumerCreateCmd) Help() string {
	return `The consumer begins with the first event of the log; to begin elsewhere, reset it. The
password is shown this once; only its hash is kept. A server that runs takes the new
consumer over at once.`
}

// Run makes the consumer.
func (c consumerCreateCmd) Run(a *cli.App) error {
	return show(a, c, "POST /admin/nats/consumers", func(made installation.NewNATSConsumer) error {
		err := a.PrintRows([][2]string{
			{"Consumer", made.Name},
			{"Reads", paymentsOf(made.ProjectID)},
			{"User", made.User},
			{"Password", made.Password + "  (shown this once)"},
			{"Inbox prefix", made.InboxPrefix},
			{"Stream", made.Stream},
			{"Durable", made.Durable},
			{"Address", made.Address},
		})
		if made.Address == "" {
			fmt.Fprintln(a.Stdout, "\nIt can connect while a server runs on the directory with --nats-listen.")
		}
		return err
	})
}

func paymentsOf(project string) string {
	if project == "" {
		return "all payments"
	}
	return "payments of " + project
}

type consumerListCmd struct{ Anyway }

// Help is shown by --help.
func (consumerListCmd) Help() string {
	return `POSITION is up to where all events of the consumer are acknowledged. WAITING is how many are
not, up to the end of the log; it is known while a server runs.`
}

// Run lists the consumers.
func (c consumerListCmd) Run(a *cli.App) error {
	return table(a, c, "GET /admin/nats/consumers", "No consumers.", "NAME, READS, POSITION, WAITING", func(one installation.NATSConsumer) []any {
		return []any{one.Name, paymentsOf(one.ProjectID), one.Position, one.Waiting}
	})
}

type consumerResetCmd struct {
	Anyway
	Name string `arg:"" help:"Consumer to reset." json:"name"`
	To   uint64 `help:"The next event is the first one of the consumer after this position; 0: the first of the log." required:"" placeholder:"POSITION" json:"position"`
}

// Help is shown by --help.
func (consumerResetCmd) Help() string {
	return `An earlier position sends events again, a later one skips some for good. A program that is
reading meanwhile has to ask for its next events again; its connection stays.`
}

// Run resets the consumer.
func (c consumerResetCmd) Run(a *cli.App) error {
	return do(a, c, "POST /admin/nats/consumers/{name}/reset",
		map[string]any{"name": c.Name, "position": c.To}, "Consumer %s continues after position %d.\n", c.Name, c.To)
}

type consumerRemoveCmd struct {
	Anyway
	Name string `arg:"" help:"Consumer to remove." json:"name"`
}

// Help is shown by --help.
func (consumerRemoveCmd) Help() string {
	return `Its password is refused from now on, programs that are connected with it are disconnected,
and its position is forgotten.`
}

// Run removes the consumer.
func (c consumerRemoveCmd) Run(a *cli.App) error {
	return do(a, c, "DELETE /admin/nats/consumers/{name}",
		map[string]any{"name": c.Name, "removed": true}, "Consumer %s is removed.\n", c.Name)
}
