// Package consumers keeps those who read EVENTS of the embedded NATS server with
// credentials and a position of their own.
//
// Who they are and whose payments they read is in the log (package installation); how far
// they got is in a file of the data directory. The users and the durable consumers in
// JetStream are made of both, so that a wiped JetStream costs no event: a consumer
// begins behind the position in the file, which is taken from JetStream's
// acknowledgements every few seconds and never ahead of them. What was
// acknowledged since comes again, and everything does without the file.
package consumers

import (
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
	"payledger/notifier/bus"
	"payledger/notifier/health"
)

// Config configures a Book.
type Config struct {
	File  string
	Write func(name string, content []byte) error // replaces a file, synced, readable only by its owner
	LogID domain.ID
	Last  eventstore.Position // of the log when it was opened
	IDs   *domain.IDs
	Known func() []installation.Consumer // as the log has them now
}

// Live is what a server that runs on the directory does about changes.
type Live struct {
	Address  string // "": the server does not listen
	External bool   // the NATS server is external
	Users    func() error
	Durables func(context.Context) error
}

// Book is the consumers of a data directory. Safe for concurrent use.
type Book struct {
	config Config
	live   atomic.Pointer[Live]
	saving sync.Mutex // one Save at a time; taken before mu

	mu      sync.Mutex
	places  map[string]consumer // how far consumers got, by name
	waiting map[string]uint64
	unsaved bool // places that are not in the file yet
}

// file is the content of the file.
type file struct {
	Log       domain.ID  `json:"log"` // that the positions are of
	Consumers []consumer `json:"consumers"`
}

// consumer is how far one of an order got.
type consumer struct {
	Name     string              `json:"name"`
	Start    domain.ID           `json:"start"`
	Position eventstore.Position `json:"position"`
}

const saveEvery = 5 * time.Second

// Open reads the file. Positions of another log count as none, those beyond the log as
// its end: after a restore the log goes on with other events there.
func Open(c Config) (*Book, error) {
	b := &Book{config: c, places: make(map[string]consumer), waiting: make(map[string]uint64)}
	content, err := os.ReadFile(c.File)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	var f file
	if err == nil {
		err = json.Unmarshal(content, &f, json.RejectUnknownMembers(true))
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w; take it from a backup, or delete it, and all consumers begin again", c.File, err)
	}
	for _, one := range f.Consumers {
		if one.Position = min(one.Position, c.Last); f.Log != c.LogID {
			one.Position = 0
		}
		b.places[one.Name] = one
	}
	return b, nil
}

// Attach connects the book to the server that runs on the directory.
func (b *Book) Attach(live Live) { b.live.Store(&live) }

// All are the consumers of now, by name.
func (b *Book) All() []bus.Consumer {
	known := b.config.Known()
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]bus.Consumer, len(known))
	for i, c := range known {
		all[i] = bus.Consumer{Name: c.Name, Project: c.ProjectID, Password: c.Password, Start: c.Start.String(), Position: b.position(c)}
	}
	return all
}

// position is how far a consumer got. The caller holds mu.
func (b *Book) position(c installation.Consumer) eventstore.Position {
	from := eventstore.Position(c.From)
	if at, ok := b.places[c.Name]; ok && at.Start == c.Start {
		return max(from, at.Position)
	}
	return from
}

// Progress notes how far a consumer got.
func (b *Book) Progress(c bus.Consumer, acknowledged eventstore.Position, waiting uint64) {
	known := b.config.Known()
	i := slices.IndexFunc(known, func(k installation.Consumer) bool { return k.Name == c.Name && k.Start.String() == c.Start })
	if i < 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting[c.Name] = waiting
	if acknowledged > b.position(known[i]) {
		b.places[c.Name] = consumer{Name: c.Name, Start: known[i].Start, Position: acknowledged}
		b.unsaved = true
	}
}

// Run saves positions until ctx ends. A failure is tried again; it only makes
// events come again after JetStream was wiped.
func (b *Book) Run(ctx context.Context) error {
	for health.Pause(ctx, saveEvery) {
		_ = b.Save()
	}
	return nil
}

// Save writes positions that are not in the file yet, of the consumers of now.
func (b *Book) Save() (err error) {
	b.saving.Lock()
	defer b.saving.Unlock()
	known := b.config.Known()
	f := file{Log: b.config.LogID, Consumers: make([]consumer, len(known))}
	b.mu.Lock()
	for i, c := range known {
		f.Consumers[i] = consumer{Name: c.Name, Start: c.Start, Position: b.position(c)}
	}
	unsaved := b.unsaved
	b.unsaved = false
	b.mu.Unlock()
	if !unsaved {
		return nil
	}
	content, err := json.Marshal(f)
	if err == nil {
		err = b.config.Write(b.config.File, append(content, '\n'))
	}
	if err != nil {
		b.mu.Lock()
		b.unsaved = true
		b.mu.Unlock()
	}
	return err
}
