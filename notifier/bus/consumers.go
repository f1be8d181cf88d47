package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"payledger/domain"
	"payledger/domain/installation"
	"payledger/eventstore"
	"payledger/notifier/health"
)

// ConsumersConfig configures Consumers.
type ConsumersConfig struct {
	File  string
	Write func(name string, content []byte) error // replaces a file, synced, readable only by its owner
	LogID domain.ID
	Last  eventstore.Position // of the log when it was opened
	IDs   *domain.IDs
	Known func() []installation.Consumer // as the log has them now
}

// Consumers are those who read EVENTS of the embedded NATS server with credentials and a
// position of their own, besides the subscriber. The name of each is that of its user and of its
// durable consumer; its inboxes begin with _INBOX_ and the name. Safe for concurrent use.
//
// Who they are and whose payments they read is in the log (package installation); how far
// they got is in a file of the data directory. The users and the durable consumers in
// JetStream are made of both, so that a wiped JetStream costs no event: a consumer
// begins behind the position in the file, which is taken from JetStream's
// acknowledgements every few seconds and never ahead of them. What was
// acknowledged since comes again, and everything does without the file.
type Consumers struct {
	config   ConsumersConfig
	durables atomic.Pointer[Durables] // nil: no server runs on the directory

	unsaved atomic.Bool // places are not in the file yet

	mu      sync.Mutex
	places  map[string]place // how far consumers got, by name
	waiting map[string]uint64
}

// consumersFile is the content of the file.
type consumersFile struct {
	Log       domain.ID `json:"log"` // that the positions are of
	Consumers []place   `json:"consumers"`
}

// place is how far a consumer got since an order said where it begins.
type place struct {
	Name     string              `json:"name"`
	Start    domain.ID           `json:"start"`
	Position eventstore.Position `json:"position"`
}

const saveEvery = 5 * time.Second

// OpenConsumers reads the file. Positions of another log count as none, those beyond the log as
// its end: after a restore the log goes on with other events there. The file is made to say so
// before it does.
func OpenConsumers(c ConsumersConfig) (*Consumers, error) {
	s := &Consumers{config: c, places: make(map[string]place), waiting: make(map[string]uint64)}
	content, err := os.ReadFile(c.File)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	var f consumersFile
	if err == nil {
		err = json.Unmarshal(content, &f, json.RejectUnknownMembers(true))
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w; take it from a backup, or delete it, and all consumers begin again", c.File, err)
	}
	for _, one := range f.Consumers {
		read := one.Position
		if one.Position = min(read, c.Last); f.Log != c.LogID {
			one.Position = 0
		}
		s.places[one.Name] = one
		if one.Position != read {
			s.unsaved.Store(true)
		}
	}
	if err := s.Save(); err != nil {
		return nil, fmt.Errorf("%s has positions that the log does not have, as after a restore, and cannot be written with those it has: %w", c.File, err)
	}
	return s, nil
}

// Attach connects the consumers to the server that runs on the directory.
func (s *Consumers) Attach(d *Durables) { s.durables.Store(d) }

// All are the consumers of now, by name. Of each From is the position up to which it is known
// to have acknowledged all its events. Of a nil *Consumers there are none.
func (s *Consumers) All() []installation.Consumer {
	if s == nil {
		return nil
	}
	all := slices.Clone(s.config.Known())
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range all {
		all[i].From = uint64(s.position(c))
	}
	return all
}

// position is how far a consumer got. The caller holds mu.
func (s *Consumers) position(c installation.Consumer) eventstore.Position {
	if at := s.places[c.Name]; at.Start == c.Start {
		return max(eventstore.Position(c.From), at.Position)
	}
	return eventstore.Position(c.From)
}

// progress notes up to where a consumer has acknowledged its events, and how many after that wait.
func (s *Consumers) progress(c installation.Consumer, acknowledged eventstore.Position, waiting uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[c.Name] = waiting
	if acknowledged > s.position(c) {
		s.places[c.Name] = place{Name: c.Name, Start: c.Start, Position: acknowledged}
		s.unsaved.Store(true)
	}
}

// Run saves positions until ctx ends. A failure is tried again; it only makes
// events come again after JetStream was wiped.
func (s *Consumers) Run(ctx context.Context) error {
	for health.Pause(ctx, saveEvery) {
		_ = s.Save()
	}
	return nil
}

// Save writes positions that are not in the file yet, of the consumers of now. It is called by one
// goroutine at a time.
func (s *Consumers) Save() error {
	if !s.unsaved.Swap(false) {
		return nil
	}
	f := consumersFile{Log: s.config.LogID}
	for _, c := range s.All() {
		f.Consumers = append(f.Consumers, place{Name: c.Name, Start: c.Start, Position: eventstore.Position(c.From)})
	}
	content, err := json.Marshal(f)
	if err == nil {
		err = s.config.Write(s.config.File, append(content, '\n'))
	}
	if err != nil {
		s.unsaved.Store(true)
	}
	return err
}

// ConsumerSubjects are those on which the events of a consumer's payments are.
func ConsumerSubjects(c installation.Consumer) []string {
	return PaymentSubjects(cmp.Or(c.ProjectID, "*"))
}
