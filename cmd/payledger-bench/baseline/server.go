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

	// Sink is none: it takes webhooks.
	Sink = "sink"
)

// Names lists the baselines, and the sink.
func Names() []string { return []string{Bare, Map, Bolt, Ceiling, CeilingNATS, Sink} }

// Options say which baseline to run.
type Options struct {
	Name      string
	Dir       string        // where it keeps what it keeps
	SyncDelay time.Duration // added to each sync of the ceilings
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
	if k != nil {
		defer func() { err = errors.Join(err, k.close()) }()
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	key := "sk_" + strings.ToLower(rand.Text()+rand.Text())
	s := &server{
		keeper: k, project: project, hash: sha256.Sum256([]byte(key)),
		ids: domain.NewIDs(time.Now, rand.Reader, domain.ID{}), base: "http://" + l.Addr().String(),
	}
	h := &http.Server{Handler: s.routes(), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- h.Serve(l) }()
	if err := ready(Ready{BaseURL: s.base, Project: project, Key: key}); err != nil {
		return errors.Join(err, h.Close())
	}
	<-ctx.Done()
	err = h.Close()
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}

type server struct {
	keeper  *keeper
	project string
	hash    [32]byte
	ids     *domain.IDs
	base    string
	sink    sink
}

func (s *server) routes() http.Handler {
	r := mux.NewRouter()
	if s.keeper == nil {
		r.Handle("/count", &s.sink).Methods(http.MethodGet)
		r.Handle("/{endpoint}", &s.sink).Methods(http.MethodPost)
	}
	r.HandleFunc("/v1/payments", s.checked(s.create)).Methods(http.MethodPost)
	r.HandleFunc("/v1/payments/{id}", s.checked(s.get)).Methods(http.MethodGet)
	r.HandleFunc("/v1/backlog", s.checked(s.backlog)).Methods(http.MethodGet)
	return r
}

// checked lets requests with the right key pass.
func (s *server) checked(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		rest, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		project, key, _ := strings.Cut(rest, ":")
		hash := sha256.Sum256([]byte(key))
		if !ok || project != s.project || subtle.ConstantTimeCompare(hash[:], s.hash[:]) != 1 {
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
	e := &entry{}
	_ = id.MarshalTextTo(e.id[:]) // it has the length
	e.body = created(id, event, s.base)
	if s.keeper != nil {
		if err := s.keeper.keep(e); err != nil {
			reply(w, http.StatusInternalServerError, fmt.Appendf(nil, `{"error":%q}`, err))
			return
		}
	}
	w.Header().Set("Location", "/v1/payments/"+string(e.id[:]))
	reply(w, http.StatusCreated, answer(e, s.base))
}

func (s *server) get(w http.ResponseWriter, r *http.Request) {
	var found []byte
	if s.keeper != nil {
		found = s.keeper.get(mux.Vars(r)["id"])
	}
	if found == nil {
		reply(w, http.StatusNotFound, []byte(`{"code":"payment_not_found"}`))
		return
	}
	reply(w, http.StatusOK, found)
}

func (s *server) backlog(w http.ResponseWriter, _ *http.Request) {
	n := 0
	if s.keeper != nil {
		n = s.keeper.backlog()
	}
	reply(w, http.StatusOK, strconv.AppendInt(nil, int64(n), 10))
}

func reply(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client went away
}
