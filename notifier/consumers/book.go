// Package consumers keeps those who read EVENTS of the embedded NATS server with
// credentials and a position of their own: who they are, whose payments they read,
// and how far they got.
//
// That is a file of the data directory. The users and the durable consumers in
// JetStream are made of it, so that a wiped JetStream costs no event: a consumer
// begins behind the position in the file, which is taken from JetStream's
// acknowledgements every few seconds and never ahead of them. What was
// acknowledged since comes again.
package consumers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/crypto/bcrypt"

	"payledger/domain"
	"payledger/domain/installation"
	"payledger/eventstore"
	"payledger/notifier/bus"
	"payledger/notifier/health"
)

// Config configures a Book.
type Config struct {
	File  string
	Write func(name string, content []byte) error // replaces a file, synced, readable by its owner alone
	LogID domain.ID
	Last  eventstore.Position // of the log when it was opened
	IDs   *domain.IDs
}

// Live is what a server that runs on the directory does about changes.
type Live struct {
	Address  string // "": the server does not listen
	External bool   // the NATS server is somebody else's
	Users    func() error
	Durables func(context.Context) error
}

// Book is the consumers of a data directory. Safe for concurrent use.
type Book struct {
	config Config
	live   *Live
	change sync.Mutex // one change at a time; taken before mu

	mu      sync.Mutex
	all     []bus.Consumer // sorted by name
	waiting map[string]uint64
	unsaved bool // positions that are not in the file yet
}

// file is the content of the file.
type file struct {
	Log       domain.ID  `json:"log"` // that the positions are of
	Consumers []consumer `json:"consumers"`
}

type consumer struct {
	Name     string              `json:"name"`
	Project  string              `json:"project_id,omitzero"`
	Password string              `json:"password_bcrypt"`
	Start    string              `json:"start"`
	Position eventstore.Position `json:"position"`
}

const saveEvery = 5 * time.Second

// Open reads the file; without one there are no consumers. Positions of another
// log count as none, those beyond the log as its end: after a restore the log goes
// on with other events there.
func Open(c Config) (*Book, error) {
	b := &Book{config: c, waiting: make(map[string]uint64)}
	content, err := os.ReadFile(c.File)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	var f file
	if err == nil {
		err = json.Unmarshal(content, &f, json.RejectUnknownMembers(true))
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w; take it from a backup, or delete it and create the consumers again", c.File, err)
	}
	for _, one := range f.Consumers {
		if !installation.ValidConsumerName(one.Name) || slices.Contains(bus.ReservedNames(), one.Name) || one.Start == "" ||
			strings.ContainsAny(one.Project, ".*> \"\\") {
			return nil, fmt.Errorf("%s: %q is not a consumer that payledger made; take the file from a backup, or delete it and create the consumers again", c.File, one.Name)
		}
		if _, err := bcrypt.Cost([]byte(one.Password)); err != nil {
			return nil, fmt.Errorf("%s: the password of %s is not one that payledger made; take the file from a backup, or delete it and create the consumers again", c.File, one.Name)
		}
		at := min(one.Position, c.Last)
		if f.Log != c.LogID {
			at = 0
		}
		if at != one.Position {
			// The durable consumer may be further: one of another order is replaced.
			one.Start, one.Position, b.unsaved = c.IDs.Next().String(), at, true
		}
		b.all = append(b.all, bus.Consumer(one))
	}
	return b, nil
}

// Attach connects the book to the server that runs on the directory, before others
// use it.
func (b *Book) Attach(live Live) { b.live = &live }

// All are the consumers of now.
func (b *Book) All() []bus.Consumer {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.all)
}

// Progress notes how far a consumer got.
func (b *Book) Progress(c bus.Consumer, acknowledged eventstore.Position, waiting uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.all, named(c.Name))
	if i < 0 || b.all[i].Start != c.Start {
		return
	}
	b.waiting[c.Name] = waiting
	if acknowledged > b.all[i].Position {
		b.all[i].Position, b.unsaved = acknowledged, true
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

// Save writes positions that are not in the file yet.
func (b *Book) Save() error {
	b.change.Lock()
	defer b.change.Unlock()
	b.mu.Lock()
	all, unsaved := slices.Clone(b.all), b.unsaved
	b.unsaved = false
	b.mu.Unlock()
	if !unsaved {
		return nil
	}
	err := b.write(all)
	if err != nil {
		b.mu.Lock()
		b.unsaved = true
		b.mu.Unlock()
	}
	return err
}

func (b *Book) write(all []bus.Consumer) error {
	f := file{Log: b.config.LogID, Consumers: make([]consumer, len(all))}
	for i, c := range all {
		f.Consumers[i] = consumer(c)
	}
	content, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return b.config.Write(b.config.File, append(content, '\n'))
}

// alter writes the changed consumers, and only then lets the server know them.
// While the file is written positions may move on, so the change is made twice.
func (b *Book) alter(how func([]bus.Consumer) []bus.Consumer) error {
	if err := b.write(how(b.All())); err != nil {
		return err
	}
	b.mu.Lock()
	b.all = how(slices.Clone(b.all))
	b.mu.Unlock()
	if b.live == nil || b.live.External {
		return nil
	}
	return b.live.Users()
}

// durables lets JetStream follow a change. What fails there is tried again by the
// relay, every few seconds.
func (b *Book) durables(ctx context.Context) {
	if b.live != nil && !b.live.External {
		_ = b.live.Durables(ctx)
	}
}

// hashed makes a password and its hash. The password is random, so the least cost
// of bcrypt is enough.
func hashed() (password, hash string, err error) {
	if password, err = bus.NewPassword(rand.Reader); err != nil {
		return "", "", err
	}
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	return password, string(h), err
}
