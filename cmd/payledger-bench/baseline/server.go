package baseline

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"payledger/domain"
)

// The names of the baselines.
const (
	Bare        = "bare"
	Map         = "map"
	Bolt        = "bbolt"
	Ceiling     = "ceiling"
	CeilingNATS = "ceiling+"
	Replicated  = "R3"
	Postgres    = "PostgreSQL"

	// Sink is none: it takes webhooks.
	Sink = "sink"
)

// Names lists the baselines, and the sink.
func Names() []string {
	return []string{Bare, Map, Bolt, Ceiling, CeilingNATS, Replicated, Postgres, Sink}
}

// Options say which baseline to run.
type Options struct {
	Name     string
	Dir      string // for its files
	Postgres string // URL of a database in which it may make a schema
}

// Ready is how a running baseline is reached.
type Ready struct {
	BaseURL string `json:"base_url"`
	Project string `json:"project_id"`
	Key     string `json:"api_key"`
}

const (
	project = "prj_01M7W78FJBM8T4R7B5N0C1D2E3"
	maxBody = 16 << 10
)

// Run serves a baseline on a free port of loopback until ctx ends.
func Run(ctx context.Context, o Options, ready func(Ready) error) (err error) {
	k, err := open(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.close()) }()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	key := "sk_" + strings.ToLower(rand.Text()+rand.Text())
	s := &server{
		keeper: k, hash: sha256.Sum256([]byte(key)),
		ids: domain.NewIDs(time.Now, rand.Reader, domain.ID{}), base: "http://" + l.Addr().String(),
	}
	h := &http.Server{Handler: s.routes(), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- h.Serve(l) }()
	if err := ready(Ready{BaseURL: s.base, Project: project, Key: key}); err != nil {
		return errors.Join(err, h.Close())
	}
	<-ctx.Done()
	// No request is under way when the keeper is closed.
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err = h.Shutdown(stop)
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}

type server struct {
	keeper keeper
	hash   [32]byte
	ids    *domain.IDs
	base   string
	sink   sink
}

func (s *server) routes() http.Handler {
	r := mux.NewRouter()
	r.HandleFunc("/count", s.sink.count).Methods(http.MethodGet)
	r.HandleFunc("/p99", s.sink.p99).Methods(http.MethodGet)
	r.HandleFunc("/{endpoint}", s.sink.take).Methods(http.MethodPost)
	r.HandleFunc("/v1/payments", s.checked(s.create)).Methods(http.MethodPost)
	r.HandleFunc("/v1/payments/{id}", s.checked(s.get)).Methods(http.MethodGet)
	r.HandleFunc("/v1/backlog", s.checked(s.backlog)).Methods(http.MethodGet)
	return r
}

// checked lets requests with the right key pass.
func (s *server) checked(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		rest, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		named, key, _ := strings.Cut(rest, ":")
		hash := sha256.Sum256([]byte(key))
		if !ok || named != project || subtle.ConstantTimeCompare(hash[:], s.hash[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			reply(w, http.StatusUnauthorized, []byte(`{"code":"unauthorized"}`))
			return
		}
		h(w, r)
	}
}

func (s *server) create(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil || len(body) == 0 || r.Header.Get("Content-Type") != "application/json" || len(r.Header.Get("Idempotency-Key")) != 36 {
		reply(w, http.StatusBadRequest, []byte(`{"code":"malformed"}`))
		return
	}
	id, event := s.ids.Pair()
	e := &entry{event: created(id, event, s.base), key: r.Header.Get("Idempotency-Key"), request: body}
	_ = id.MarshalTextTo(e.id[:]) // it has the length
	if err := s.keeper.keep(e); err != nil {
		reply(w, http.StatusInternalServerError, fmt.Appendf(nil, `{"error":%q}`, err))
		return
	}
	w.Header().Set("Location", "/v1/payments/"+string(e.id[:]))
	reply(w, http.StatusCreated, answer(e, s.base))
}

func (s *server) get(w http.ResponseWriter, r *http.Request) {
	found := s.keeper.get(mux.Vars(r)["id"])
	if found == nil {
		reply(w, http.StatusNotFound, []byte(`{"code":"payment_not_found"}`))
		return
	}
	reply(w, http.StatusOK, found)
}

func (s *server) backlog(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, strconv.AppendInt(nil, int64(s.keeper.backlog()), 10))
}

func reply(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client went away
}
