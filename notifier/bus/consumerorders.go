package bus

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/crypto/bcrypt"

	"payledger/domain"
	"payledger/domain/installation"
	"payledger/eventstore"
)

// The orders of operators about consumers. record decides a command and records what it leads
// to; ConsumersConfig.Known knows of it then.

// Create makes a consumer that begins with the first event. The name is valid and
// the project, unless empty, exists. Refusals are of NATSConsumerExists,
// NATSConsumerLimit and NATSExternal.
func (s *Consumers) Create(ctx context.Context, name, project string, record func(installation.Command) error) (made installation.NewNATSConsumer, err error) {
	d := s.durables.Load()
	switch {
	case d.external():
		return made, &domain.Refusal{Code: domain.NATSExternal}
	case slices.Contains(reservedNames(), name):
		return made, &domain.Refusal{Code: domain.NATSConsumerExists}
	}
	password := NewPassword()
	// The password is random, so the least cost of bcrypt is enough.
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err == nil {
		err = record(installation.CreateNATSConsumer{Name: name, ProjectID: project, Password: string(hash), Start: s.config.IDs.Next()})
	}
	if err != nil {
		return made, err
	}
	if err := d.follow(ctx); err != nil {
		// Nobody learns the password, so the consumer is of no use.
		return made, errors.Join(err, record(installation.RemoveNATSConsumer{Name: name}))
	}
	made = installation.NewNATSConsumer{
		NATSConsumer: installation.NATSConsumer{Name: name, ProjectID: project},
		User:         name, Password: password, Stream: EventsStream, Durable: name, InboxPrefix: "_INBOX_" + name,
	}
	if d != nil {
		if addr := d.conn.server.Addr(); addr != nil {
			made.Address = addr.String()
		}
	}
	return made, nil
}

// reservedNames may not be those of a consumer: they are users, inboxes or
// consumers already.
func reservedNames() []string {
	return []string{UserLedger, UserRelay, SubscriberConsumer, ConnectorUser, EnforcerConsumer}
}

// List are all consumers, sorted by name.
func (s *Consumers) List(ctx context.Context) []installation.NATSConsumer {
	s.durables.Load().keepNow(ctx) // it notes how far they are
	all := s.All()
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]installation.NATSConsumer, len(all))
	for i, c := range all {
		list[i] = installation.NATSConsumer{Name: c.Name, ProjectID: c.ProjectID, Position: c.From}
		if waiting, known := s.waiting[c.Name]; known {
			list[i].Waiting = &waiting
		}
	}
	return list
}

// Remove ends a consumer: its credentials, its connections and its durable
// consumer. The refusal is of NATSConsumerNotFound.
func (s *Consumers) Remove(ctx context.Context, name string, record func(installation.Command) error) error {
	if err := record(installation.RemoveNATSConsumer{Name: name}); err != nil {
		return err
	}
	err := s.durables.Load().follow(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, name)
	delete(s.places, name)
	return err
}

// Reset moves a consumer to a position of the log. The refusals are of NATSConsumerNotFound and
// NATSExternal.
func (s *Consumers) Reset(ctx context.Context, name string, to eventstore.Position, record func(installation.Command) error) error {
	d := s.durables.Load()
	if d.external() {
		return &domain.Refusal{Code: domain.NATSExternal}
	}
	if err := record(installation.ResetNATSConsumer{Name: name, Position: uint64(to), Start: s.config.IDs.Next()}); err != nil {
		return err
	}
	d.keepNow(ctx)
	return nil
}
