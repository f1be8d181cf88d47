package consumers

import (
	"context"
	"errors"
	"slices"
	"strings"

	"payledger/domain"
	"payledger/domain/installation"
	"payledger/eventstore"
	"payledger/notifier/bus"
)

// Record records an act, before it is done. It is called once nothing stands in the
// way of the act; with an error nothing is done.
type Record = func(installation.Act) error

// Create makes a consumer that begins with the first event. The name is valid and
// the project, unless empty, exists. Refusals are of NATSConsumerExists,
// NATSConsumerLimit and NATSExternal.
func (b *Book) Create(ctx context.Context, name, project string, record Record) (installation.NewNATSConsumer, error) {
	b.change.Lock()
	defer b.change.Unlock()
	all := b.All()
	switch {
	case b.live != nil && b.live.External:
		return installation.NewNATSConsumer{}, &domain.Refusal{Code: domain.NATSExternal}
	case slices.Contains(bus.ReservedNames(), name), slices.ContainsFunc(all, named(name)):
		return installation.NewNATSConsumer{}, &domain.Refusal{Code: domain.NATSConsumerExists}
	case len(all) >= bus.MaxConsumers:
		return installation.NewNATSConsumer{}, &domain.Refusal{Code: domain.NATSConsumerLimit}
	}
	password, hash, err := hashed()
	if err == nil {
		err = record(installation.NATSConsumerCreated{Name: name, ProjectID: project})
	}
	if err != nil {
		return installation.NewNATSConsumer{}, err
	}
	made := bus.Consumer{Name: name, Project: project, Password: hash, Start: b.config.IDs.Next().String()}
	err = b.alter(func(all []bus.Consumer) []bus.Consumer {
		all = append(all, made)
		slices.SortFunc(all, func(x, y bus.Consumer) int { return strings.Compare(x.Name, y.Name) })
		return all
	})
	if err != nil {
		// Nobody learns the password, so the consumer is of no use.
		_ = b.alter(func(all []bus.Consumer) []bus.Consumer { return slices.DeleteFunc(all, named(name)) })
		return installation.NewNATSConsumer{}, errors.Join(err, record(installation.NATSConsumerRemoved{Name: name}))
	}
	b.durables(ctx)
	out := installation.NewNATSConsumer{
		NATSConsumer: installation.NATSConsumer{Name: name, ProjectID: project},
		User:         name, Password: password, Stream: bus.EventsStream, Durable: name, InboxPrefix: "_INBOX_" + name,
	}
	if b.live != nil {
		out.Address = b.live.Address
	}
	return out, nil
}

// List are all consumers, sorted by name.
func (b *Book) List(ctx context.Context) []installation.NATSConsumer {
	b.durables(ctx) // it notes how far they are
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]installation.NATSConsumer, len(b.all))
	for i, c := range b.all {
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
	b.change.Lock()
	defer b.change.Unlock()
	if !slices.ContainsFunc(b.All(), named(name)) {
		return &domain.Refusal{Code: domain.NATSConsumerNotFound}
	}
	if err := record(installation.NATSConsumerRemoved{Name: name}); err != nil {
		return err
	}
	err := b.alter(func(all []bus.Consumer) []bus.Consumer { return slices.DeleteFunc(all, named(name)) })
	b.durables(ctx)
	b.mu.Lock()
	delete(b.waiting, name)
	b.mu.Unlock()
	return err
}

// Reset lets a consumer go on behind a position of the log. The refusals are of
// NATSConsumerNotFound and NATSExternal.
func (b *Book) Reset(ctx context.Context, name string, to eventstore.Position, record Record) error {
	b.change.Lock()
	defer b.change.Unlock()
	switch {
	case !slices.ContainsFunc(b.All(), named(name)):
		return &domain.Refusal{Code: domain.NATSConsumerNotFound}
	case b.live != nil && b.live.External:
		return &domain.Refusal{Code: domain.NATSExternal}
	}
	if err := record(installation.NATSConsumerReset{Name: name, Position: uint64(to)}); err != nil {
		return err
	}
	start := b.config.IDs.Next().String()
	err := b.alter(func(all []bus.Consumer) []bus.Consumer {
		i := slices.IndexFunc(all, named(name))
		all[i].Start, all[i].Position = start, to
		return all
	})
	b.durables(ctx)
	return err
}

func named(name string) func(bus.Consumer) bool {
	return func(c bus.Consumer) bool { return c.Name == name }
}
