package consumers

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/crypto/bcrypt"

	"payledger/domain"
	"payledger/domain/installation"
	"payledger/eventstore"
	"payledger/notifier/bus"
)

// Record decides a command and records what it leads to. Config.Known knows of it then.
type Record = func(installation.Command) error

// Create makes a consumer that begins with the first event. The name is valid and
// the project, unless empty, exists. Refusals are of NATSConsumerExists,
// NATSConsumerLimit and NATSExternal.
func (b *Book) Create(ctx context.Context, name, project string, record Record) (made installation.NewNATSConsumer, err error) {
	switch {
	case b.external():
		return made, &domain.Refusal{Code: domain.NATSExternal}
	case slices.Contains(bus.ReservedNames(), name):
		return made, &domain.Refusal{Code: domain.NATSConsumerExists}
	}
	password := bus.NewPassword()
	// The password is random, so the least cost of bcrypt is enough.
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err == nil {
		err = record(installation.CreateNATSConsumer{Name: name, ProjectID: project, Password: string(hash), Start: b.config.IDs.Next()})
	}
	if err != nil {
		return made, err
	}
	if err := b.users(); err != nil {
		// Nobody learns the password, so the consumer is of no use.
		return made, errors.Join(err, record(installation.RemoveNATSConsumer{Name: name}))
	}
	b.durables(ctx)
	made = installation.NewNATSConsumer{
		NATSConsumer: installation.NATSConsumer{Name: name, ProjectID: project},
		User:         name, Password: password, Stream: bus.EventsStream, Durable: name, InboxPrefix: "_INBOX_" + name,
	}
	if live := b.live.Load(); live != nil {
		made.Address = live.Address
	}
	return made, nil
}

func (b *Book) external() bool {
	live := b.live.Load()
	return live != nil && live.External
}

// users lets the server follow a change.
func (b *Book) users() error {
	if live := b.live.Load(); live != nil && !live.External {
		return live.Users()
	}
	return nil
}

// durables lets JetStream follow a change. What fails there is tried again by the
// relay, every few seconds.
func (b *Book) durables(ctx context.Context) {
	if live := b.live.Load(); live != nil && !live.External {
		_ = live.Durables(ctx)
	}
}

// List are all consumers, sorted by name.
func (b *Book) List(ctx context.Context) []installation.NATSConsumer {
	b.durables(ctx) // it notes how far they are
	all := b.All()
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]installation.NATSConsumer, len(all))
	for i, c := range all {
		list[i] = installation.NATSConsumer{Name: c.Name, ProjectID: c.Project, Position: uint64(c.Position)}
		if waiting, known := b.waiting[c.Name]; known {
			list[i].Waiting = &waiting
		}
	}
	return list
}

// Remove ends a consumer: its credentials, its connections and its durable
// consumer. The refusal is of NATSConsumerNotFound.
func (b *Book) Remove(ctx context.Context, name string, record Record) error {
	if err := record(installation.RemoveNATSConsumer{Name: name}); err != nil {
		return err
	}
	err := b.users()
	b.durables(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, name)
	delete(b.places, name)
	return err
}

// Reset moves a consumer to a position of the log. The refusals are of NATSConsumerNotFound and
// NATSExternal.
func (b *Book) Reset(ctx context.Context, name string, to eventstore.Position, record Record) error {
	if b.external() {
		return &domain.Refusal{Code: domain.NATSExternal}
	}
	if err := record(installation.ResetNATSConsumer{Name: name, Position: uint64(to), Start: b.config.IDs.Next()}); err != nil {
		return err
	}
	b.durables(ctx)
	return nil
}
